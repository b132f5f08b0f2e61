"""Distributions of TTFT and TBT: complementary CDFs on log axes, so that tails can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sim.report.plots.figure import new_figure, run_legend, styles, tidy
from sim.report.tables import seconds
from sim.report.view import RunView

Points = tuple[NDArray[np.float64], NDArray[np.float64]]

MARKED_SHARES = ((0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"))


def draw(views: Sequence[RunView]) -> Figure:
    """Both distributions, all runs in each; a dotted upright line is the SLO."""
    figure = new_figure(10, 4.8)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.07, right=0.955, bottom=0.12, top=0.82, wspace=0.27)
    _panel(left, views, [ttft_points(view) for view in views], "ttft_s", "TTFT", "requests")
    _panel(right, views, [tbt_points(view) for view in views], "tbt_s", "TBT", "gaps between tokens")
    run_legend(figure, views)
    return figure


def ttft_points(view: RunView) -> Points:
    """TTFT and the share of requests at or above it, thinned where points would coincide."""
    values = np.sort(view.requests["ttft_s"].dropna().to_numpy())
    count = len(values)
    if count == 0:
        return np.empty(0), np.empty(0)
    # Every one of the 200 largest, then ever fewer: even steps on the log axis.
    from_top = np.unique(np.geomspace(1, count, 1500).round().astype(np.int64))
    from_top = np.union1d(from_top, np.arange(1, min(count, 200) + 1))
    return values[count - from_top], from_top / count


def tbt_points(view: RunView) -> Points:
    """TBT and the share of gaps above it, from the stored quantiles, as far as there are gaps."""
    count = view.summary["num_tbt"]
    if count == 0 or len(view.tbt) == 0:
        return np.empty(0), np.empty(0)
    share = 1 - view.tbt["quantile"].to_numpy()
    inside = share >= 1 / count
    values = np.append(view.tbt["tbt_s"].to_numpy()[inside], view.tbt["tbt_s"].iloc[-1])
    return values, np.append(share[inside], 1 / count)


def _panel(
    axes: Axes, views: Sequence[RunView], points: Sequence[Points], key: str, label: str, counted: str
) -> None:
    by_name = styles(views)
    lowest = 0.1
    for view, (values, share) in zip(views, points, strict=True):
        style = by_name[view.name]
        axes.plot(values, share, color=style.color, linestyle=style.dashes, linewidth=1.7)
        if len(share):
            lowest = min(lowest, float(share.min()))
    axes.set(xscale="log", yscale="log", ylim=(lowest * 0.8, 1.15))
    axes.set_title(f"{label}: share of {counted} above it", fontsize=10, loc="left", pad=15)
    axes.set_xlabel(f"{label} (s)")
    axes.set_ylabel(f"share of {counted}")
    _mark_percentiles(axes, lowest)
    _mark_slo(axes, views, key)
    _plain_ticks(axes)
    tidy(axes)


def _mark_percentiles(axes: Axes, lowest: float) -> None:
    for share, name in MARKED_SHARES:
        if share >= lowest:
            axes.axhline(share, color="0.75", linewidth=0.7, zorder=0)
            axes.text(
                1.005, share, name, transform=axes.get_yaxis_transform(), fontsize=7, color="0.4", va="center"
            )


def _mark_slo(axes: Axes, views: Sequence[RunView], key: str) -> None:
    limits = {view.summary["slo"].get(key) for view in views} - {None}
    for limit in sorted(limits):
        axes.axvline(limit, color="0.3", linewidth=1, linestyle=":", zorder=0)
        axes.text(
            limit, 1.0, f" SLO {seconds(limit)}", transform=axes.get_xaxis_transform(), fontsize=7,
            color="0.3", va="bottom", ha="center",
        )  # fmt: skip


def _plain_ticks(axes: Axes) -> None:
    """0.1 rather than 10 to the -1 where the numbers are of human size."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    def plain(value: float, _position: Any) -> str:
        return f"{value:g}"

    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.xaxis.set_minor_formatter(NullFormatter())
