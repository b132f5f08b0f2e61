"""Result: a finished run as metrics, frames, plots and files; from memory or from a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.report import folder
from sim.report.view import RunView

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Result:
    """One run. Frames have the columns of design.md section 9; plots are matplotlib Figures."""

    def __init__(self, view: RunView, *, interrupted: bool = False) -> None:
        self.view = view
        self.interrupted = interrupted
        """Ctrl-C ended the simulation early; requests not served by then are `unfinished`."""

    @property
    def name(self) -> str:
        """What the run is called in tables and legends: the policy's name unless told otherwise."""
        return self.view.name

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config."""
        return dict(self.view.config)

    @property
    def summary(self) -> dict[str, Any]:
        """All metrics, counts and provenance: the contents of summary.json."""
        return dict(self.view.summary)

    @property
    def requests(self) -> pd.DataFrame:
        """One row a request."""
        return self.view.requests

    @property
    def iterations(self) -> pd.DataFrame:
        """One row an iteration; an exact jump over equal batches is one row with `repeats`."""
        return self.view.iterations

    def save(self, directory: str | Path, *, plots: bool = True) -> Path:
        """Write the run folder (design.md section 9), with its plots unless told not to."""
        target = Path(directory)
        file_format = self.config["output"]["format"]
        folder.write_run(self.view, target, file_format=file_format)
        if plots:
            self.plot(target / "plots")
        return target

    def plot(self, directory: str | Path) -> list[Path]:
        """Draw every plot of the run as PNG files in `directory`; their paths."""
        from sim.report.plots import draw_all

        return draw_all([self.view], Path(directory))

    def plot_distributions(self, *others: Result) -> Figure:
        """TTFT and TBT distributions with log tails; `others` are drawn beside this run."""
        from sim.report.plots import distributions

        return distributions(self._with(others))

    def plot_timeline(self, *others: Result, window_s: tuple[float, float] | None = None) -> Figure:
        """Iterations over a few seconds: prefill and decode work, and the decodes that stalled.

        `window_s` is (start, end) on the run's clock; by default around the worst stall.
        """
        from sim.report.plots import timeline

        return timeline(self._with(others), window_s=window_s)

    def plot_load(self, *others: Result) -> Figure:
        """Running and waiting requests and KV use over time."""
        from sim.report.plots import load

        return load(self._with(others))

    def plot_throughput(self, *others: Result) -> Figure:
        """Throughput over time."""
        from sim.report.plots import throughput

        return throughput(self._with(others))

    def _with(self, others: Sequence[Result]) -> list[RunView]:
        return [self.view, *(other.view for other in others)]

    def __repr__(self) -> str:
        finished, total = self.summary["num_finished"], self.summary["num_requests"]
        return f"Result({self.name!r}, {finished}/{total} requests finished)"


def load_run(directory: str | Path) -> Result:
    """The result in a run folder; UserError if it is none."""
    return Result(folder.load_run(Path(directory)))
