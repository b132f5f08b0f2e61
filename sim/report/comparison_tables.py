"""Comparison tables for a terminal: policies side by side over seeds, beside what none can beat.

Owns the layout; means and intervals are statistics.py's, sentences verdicts.py's, and the lines are
those of tables.COMPARISON. Everything is read from the frame that compare returns, so that a table
can be made again from comparison.csv. Returns rich renderables, prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sim.report.statistics import FEWEST_SEEDS, Interval, interval
from sim.report.tables import COMPARISON, Row, shown
from sim.report.verdicts import verdicts

BOUND = "bound."
BOUND_HEAD = "no policy beats"

AGAINST_BOUND = (
    Row("TTFT p50 / its bound", ("ttft_s", "p50"), "times", "low"),
    Row("TTFT p99 / its bound", ("ttft_s", "p99"), "times", "low"),
    Row("makespan / its bound", ("makespan_s",), "times", "low"),
    Row("output tokens/s / its bound", ("throughput", "output_tokens_per_s"), "times", "high"),
)


def comparison_of(frame: pd.DataFrame, notices: Sequence[str] = ()) -> Group:
    """One column a policy and one of bounds; each cell is the mean over the seeds.

    From FEWEST_SEEDS on its interval stands below it, but for what the simulator itself took.
    The best mean of a line is bold. Lines that are empty everywhere are left out.
    """
    policies = [str(policy) for policy in frame["policy"].unique()]
    bounded = any(str(column).startswith(BOUND) for column in frame)
    table = Table(header_style="bold")
    table.add_column("", no_wrap=True)
    for policy in policies:
        table.add_column(policy, justify="right", overflow="fold")
    if bounded:
        table.add_column(Text(BOUND_HEAD, style="italic"), justify="right")
    for section in COMPARISON:
        lines = [(row, _cells(frame, policies, row)) for row in section]
        _add_section(table, [(row, [*cells, *_bound(frame, row, bounded)]) for row, cells in lines if cells])
    if bounded:
        lines = [(row, _cells(over_bound(frame, row), policies, row)) for row in AGAINST_BOUND]
        _add_section(table, [(row, [*cells, Text()]) for row, cells in lines if cells])
    seeds = frame["seed"].nunique()
    if 1 < seeds < FEWEST_SEEDS:
        few = f"means of {seeds} seeds, too few for their intervals to say much; {FEWEST_SEEDS} show them"
        notices = [*notices, few]
    notes = [Text(f"note: {notice}", style="dim") for notice in notices]
    return Group(table, *notes)


def verdict_lines(frame: pd.DataFrame, baseline: str) -> Group:
    """What the seeds show of every policy against `baseline`, a sentence a metric."""
    lines = []
    for policy, sentences in verdicts(frame, baseline).items():
        lines.append(Text(f"{policy} against {baseline}", style="bold"))
        lines += [Text(f"  {sentence}") for sentence in sentences]
    return Group(*lines)


def over_bound(frame: pd.DataFrame, row: Row) -> pd.DataFrame:
    """`frame` with the row's metric as a multiple of its bound, seed by seed."""
    column, bound = ".".join(row.path), BOUND + ".".join(row.path)
    if column not in frame or bound not in frame:
        return frame[["policy", "seed"]]
    times = frame[column].astype(float) / frame[bound].astype(float)
    return frame[["policy", "seed"]].assign(**{column: times})


def _add_section(table: Table, lines: list[tuple[Row, list[Text]]]) -> None:
    for place, (row, cells) in enumerate(lines, start=1):
        table.add_row(row.label, *cells, end_section=place == len(lines))


def _cells(frame: pd.DataFrame, policies: Sequence[str], row: Row) -> list[Text]:
    """One cell a policy; none where no policy has the metric."""
    column = ".".join(row.path)
    if column not in frame:
        return []
    values = frame[column].astype(float)
    found = [_mean(values[frame["policy"] == policy].dropna()) for policy in policies]
    means = [mean.mean for mean in found if mean is not None]
    blocks = _blocks(frame, policies, row)
    if not means and not any(blocks):
        return []
    best = {"low": min, "high": max}.get(row.better)
    winner = best(means) if best and len(set(means)) > 1 else None
    spread = row.path[0] != "simulator" and frame["seed"].nunique() >= FEWEST_SEEDS
    return [
        Text(instead or "-")
        if mean is None
        else _cell(mean, row, bold=mean.mean == winner, spread=spread)
        for mean, instead in zip(found, blocks, strict=True)
    ]


def _blocks(frame: pd.DataFrame, policies: Sequence[str], row: Row) -> list[str]:
    """What stands in for the share of an unlimited cache; empty where nothing does."""
    column = ".".join(row.blocks)
    if column not in frame:
        return [""] * len(policies)
    means = [frame.loc[frame["policy"] == policy, column].mean() for policy in policies]
    return ["" if mean != mean else f"{mean:,.0f} blocks" for mean in means]


def _mean(values: pd.Series[float]) -> Interval | None:
    return interval(values.tolist()) if len(values) else None


def _cell(found: Interval, row: Row, *, bold: bool, spread: bool) -> Text:
    # a mean of counts need not be whole
    whole = row.unit != "count" or found.mean == int(found.mean)
    text = Text(shown(found.mean, row.unit if whole else "rate"), style="bold" if bold else "")
    if spread and found.low is not None and found.high is not None and found.low < found.high:
        unit = "rate" if row.unit == "count" else row.unit
        low, high = max(found.low, 0.0), min(found.high, 1.0) if unit == "share" else found.high
        text.append(f"\n[{shown(low, unit)}, {shown(high, unit)}]", style="dim not bold")
    return text


def _bound(frame: pd.DataFrame, row: Row, bounded: bool) -> list[Text]:
    """The cell of the bounds' column, where there is such a column."""
    if not bounded:
        return []
    column = BOUND + ".".join(row.path)
    values = frame.drop_duplicates("seed")[column].dropna() if column in frame else ()
    if not len(values):
        return [Text()]
    return [Text(shown(float(np.mean(values)), row.unit), style="italic")]
