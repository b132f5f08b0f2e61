"""Comparison: headline metrics of several policies over seeds, each beside what no policy can beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sim.report.comparison_tables import BOUND
from sim.report.plots.figure import Style, new_figure, short_time, styles_of, tidy
from sim.report.statistics import FEWEST_SEEDS, interval

COLUMNS = 4
TICKS = ((15, (1.0, 2.0, 5.0)), (60, (1.0, 3.0)))
"""Labelled values of a decade on a log axis that spans at most so much; above, only its start."""


@dataclass(frozen=True)
class Panel:
    """One metric."""

    metric: str
    title: str
    is_time: bool = True
    """Times are in seconds on a log axis, less is better; others on a linear one, more is better."""


PANELS = (
    Panel("ttft_s.p50", "TTFT p50"),
    Panel("ttft_s.p99", "TTFT p99"),
    Panel("tbt_s.p99", "TBT p99"),
    Panel("tbt_s.max", "TBT max"),
    Panel("e2e_s.p50", "E2E p50"),
    Panel("throughput.output_tokens_per_s", "output tokens/s", is_time=False),
    Panel("goodput", "goodput, requests/s", is_time=False),
    Panel("slo_attainment", "SLO attainment", is_time=False),
)


def draw(frame: pd.DataFrame) -> Figure:
    """A panel a metric, a line a policy: the mean, its interval over seeds, and a small dot a seed."""
    policies = [str(policy) for policy in frame["policy"].unique()]
    panels = [panel for panel in PANELS if panel.metric in frame and frame[panel.metric].notna().any()]
    rows = -(-len(panels) // COLUMNS)
    height = 0.9 + rows * (0.95 + 0.3 * len(policies))
    figure = new_figure(12, height)
    grid = figure.subplots(rows, COLUMNS, squeeze=False, sharey=True)
    figure.subplots_adjust(
        left=0.105, right=0.985, bottom=0.45 / height, top=1 - 0.62 / height, wspace=0.12, hspace=0.5
    )
    by_name = styles_of(policies)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _panel(axes, panel, frame, by_name)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    grid[0, 0].set_yticks(range(len(policies)), policies)
    grid[0, 0].set_ylim(len(policies) - 0.4, -0.6)
    seeds = frame["seed"].nunique()
    spread = ", 95 % interval" if seeds >= FEWEST_SEEDS else ""
    what = f"mean{spread} and each of {seeds} seeds" if seeds > 1 else "one seed"
    what += "; shaded: where no policy can be"
    figure.text(0.105, 1 - 0.2 / height, what, fontsize=9, color="0.3", va="center")
    return figure


def _panel(axes: Axes, panel: Panel, frame: pd.DataFrame, by_name: dict[str, Style]) -> None:
    for place, (policy, style) in enumerate((name, by_name[name]) for name in frame["policy"].unique()):
        values = frame.loc[frame["policy"] == policy, panel.metric].dropna().to_numpy(dtype=np.float64)
        if len(values):
            _policy(axes, place, values, style, log=panel.is_time)
    axes.set_title(panel.title, fontsize=10, loc="left")
    if panel.is_time:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    axes.margins(x=0.12)
    _shade(axes, panel, frame)
    if panel.is_time:
        left, right = axes.get_xlim()
        subs = next((steps for span, steps in TICKS if right / left <= span), (1.0,))
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
        axes.xaxis.set_major_formatter(FuncFormatter(short_time))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.tick_params(axis="y", labelsize=9, length=0)
    tidy(axes)


def _policy(axes: Axes, place: int, values: Any, style: Style, *, log: bool) -> None:
    found = interval(values)
    if found.low is not None and found.high is not None and len(values) >= FEWEST_SEEDS:
        # an interval of few seeds may go below 0, where a log axis ends
        low = max(found.low, min(values) / 2) if log else max(found.low, 0.0)
        axes.plot([low, found.high], [place, place], color=style.color, linewidth=2.5, solid_capstyle="butt")
    if len(values) > 1:
        beside = np.full(len(values), place + 0.22)
        axes.plot(values, beside, "o", color=style.color, markersize=2.5, alpha=0.6)
    axes.plot([found.mean], [place], "o", color=style.color, markersize=6.5)


def _shade(axes: Axes, panel: Panel, frame: pd.DataFrame) -> None:
    """Where no policy can be: below the bound of a time, above that of anything else."""
    column = BOUND + panel.metric
    if column not in frame or frame[column].isna().all():
        return
    # Seeds have bounds of their own; beyond the loosest no dot can lie.
    bound = float(frame[column].min() if panel.is_time else frame[column].max())
    left, right = axes.get_xlim()
    if panel.is_time:
        left = min(left, bound * 0.8)
        right *= (right / left) ** 0.04
        axes.axvspan(left, bound, color="0.88", zorder=0)
    else:
        right = max(right, bound * 1.12)
        axes.axvspan(bound, right, color="0.88", zorder=0)
    axes.axvline(bound, color="0.4", linewidth=1, linestyle=":", zorder=0)
    axes.set_xlim(left, right)

