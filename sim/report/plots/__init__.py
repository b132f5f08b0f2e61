"""Plots of runs: distributions, the timeline around a stall, load and throughput over time.

Every figure of runs is made from RunViews alone, so a run in memory and a run folder look the same;
those of comparisons and searches are made from the frames that sim.api returns. This
module imports matplotlib only when a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sim.report.view import RunView, distinct_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = [
    "attainment_curves", "capacity_bars", "comparison_dots", "distributions", "draw_all", "frontiers", "load",
    "throughput", "timeline",
]  # fmt: skip


def distributions(views: Sequence[RunView]) -> Figure:
    """TTFT and TBT of all runs: the share above each value, on log axes."""
    from sim.report.plots.tail_curves import draw

    return draw(distinct_names(views))


def timeline(views: Sequence[RunView], window_s: tuple[float, float] | None = None) -> Figure:
    """A few seconds of every run on one time axis; by default around the naive policy's worst stall."""
    from sim.report.plots.stall_timeline import draw

    return draw(distinct_names(views), window_s)


def load(views: Sequence[RunView]) -> Figure:
    """Running and waiting requests and KV use over the whole run."""
    from sim.report.plots.over_time import draw_load

    return draw_load(distinct_names(views))


def throughput(views: Sequence[RunView]) -> Figure:
    """Output and prefill tokens a second over the whole run, beside what arrived."""
    from sim.report.plots.over_time import draw_throughput

    return draw_throughput(distinct_names(views))


def comparison_dots(frame: pd.DataFrame) -> Figure:
    """Headline metrics of what `sim.compare` returned: means, intervals, seeds, and bounds."""
    from sim.report.plots.comparison import draw

    return draw(frame)


def capacity_bars(frame: pd.DataFrame, title: str) -> Figure:
    """What `sim.capacity` returned, a bar a policy."""
    from sim.report.plots.capacity import draw

    return draw(frame, title)


def attainment_curves(frame: pd.DataFrame, best: pd.DataFrame, objective: str) -> Figure:
    """What `sim.attainment` returned, as curves over the rate; `best` is its `sim.best_goodput`."""
    from sim.report.plots.attainment import draw

    return draw(frame, best, objective)


def frontiers(frame: pd.DataFrame, title: str) -> Figure:
    """What `sim.frontier` returned: throughput against latency, the Pareto sets marked."""
    from sim.report.plots.frontier import draw

    return draw(frame, title)


def draw_all(views: Sequence[RunView], directory: str | Path) -> list[Path]:
    """Draw every plot of `views` together as PNG files in `directory`; their paths.

    Without recorded iterations only the distributions can be drawn. UserError if the folder cannot
    be written; each file appears whole or not at all.
    """
    from sim.report.plots.figure import save

    folder = Path(directory)
    written = [save(distributions(views), folder / "distributions.png")]
    if all(len(view.iterations) for view in views):
        written.append(save(timeline(views), folder / "timeline.png"))
        written.append(save(load(views), folder / "load.png"))
        written.append(save(throughput(views), folder / "throughput.png"))
    return written
