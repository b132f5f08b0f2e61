"""Outcome: what a reproduction gives, from memory; nothing here prints or writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.report.statistics import Interval
from sim.report.tables import shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sim.api.result import Result


@dataclass(frozen=True)
class Finding:
    """One number of ours beside what was published."""

    quantity: str
    paper: str | None
    """As the paper has it, unit included; None where it gives no number."""
    ours: Interval
    """Over seeds; without ends where there was one run, or nothing random."""
    unit: str
    """time (s), rate, share, count or times."""

    @property
    def ours_text(self) -> str:
        """Our number for people, with its 95 % interval if it has one."""
        ends = (self.ours.low, self.ours.high)
        text = _text(self.ours.mean, self.unit)
        if ends[0] is None or ends[0] == ends[1]:
            return text
        return f"{text} [{', '.join(_text(end, self.unit) for end in ends)}]"


@dataclass(frozen=True)
class Outcome:
    """All that one reproduction found."""

    name: str
    title: str
    source: str
    """Paper, figure or table, and where its numbers come from."""
    findings: Sequence[Finding]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    """By file name without its ending: the rows behind the findings and figures."""
    figures: dict[str, Figure] = field(default_factory=dict)
    """By file name without its ending."""
    runs: Sequence[Result] = ()
    """Runs worth a folder of their own; their plots are drawn together."""
    notes: Sequence[str] = ()

    def findings_frame(self) -> pd.DataFrame:
        """Columns quantity, paper, ours, low, high, unit; one row a finding."""
        import pandas as pd

        rows = [(f.quantity, f.paper, f.ours.mean, f.ours.low, f.ours.high, f.unit) for f in self.findings]
        return pd.DataFrame(rows, columns=["quantity", "paper", "ours", "low", "high", "unit"])

    def finding(self, quantity: str) -> Finding:
        """The finding of that name; KeyError if there is none."""
        found = {finding.quantity: finding for finding in self.findings}
        return found[quantity]


def _text(value: float | None, unit: str) -> str:
    if unit == "times" and value is not None and value < 9.9995:
        return f"{value:.2f} x"
    return f"0 {'s' if unit == 'time' else ''}".strip() if value == 0 else shown(value, unit)


def single(value: float) -> Interval:
    """A number without an interval: nothing about it was random."""
    return Interval(float(value), None, None)
