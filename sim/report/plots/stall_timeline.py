"""Timeline: a few seconds of every run on one time axis, so that a generation stall can be seen.

Owns the drawing; which seconds and which requests are shown is decided in lanes.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from sim.report.plots.figure import BLUE, ORANGE, VERMILLION, new_figure
from sim.report.plots.lanes import (
    Lane,
    Stall,
    Steps,
    lanes_in,
    longest_gap,
    stall_threshold_s,
    steps_in,
    telling_window,
)
from sim.report.tables import seconds
from sim.report.view import RunView

Segments = list[tuple[tuple[float, float], tuple[float, float]]]

BAR, TICK = 0.34, 0.3


def draw(views: Sequence[RunView], window_s: tuple[float, float] | None) -> Figure:
    """Per run, above: lanes of requests; below: iterations as bars of prefill tokens and decodes."""
    window = telling_window(views) if window_s is None else window_s
    threshold = stall_threshold_s(views)
    steps = [steps_in(view, window) for view in views]
    figure, panels = _panels(len(views))
    most = [max((getattr(s, name).max(initial=0) for s in steps), default=0) for name in _STRIP_FIELDS]
    for (upper, lower), view, its_steps in zip(panels, views, steps, strict=True):
        _draw_lanes(upper, lanes_in(view, window, its_steps), window, threshold)
        _title(upper, view, longest_gap(view, window, its_steps))
        _draw_strip(lower, its_steps, most)
    last = panels[-1][1]
    last.tick_params(axis="x", labelbottom=True)
    last.set_xlim(*window)
    last.set_xlabel("time since the first arrival (s)")
    _legend(figure, threshold)
    return figure


def _panels(runs: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """Two axes a run, all on one time axis: lanes, and right below them the strip of iterations."""
    height = 1.05 + 2.9 * runs
    figure = new_figure(11, height)
    outer = figure.add_gridspec(
        runs, 1, left=0.085, right=0.985, bottom=0.55 / height, top=1 - 0.65 / height, hspace=0.16
    )
    panels: list[tuple[Axes, Axes]] = []
    for run in range(runs):
        inner = outer[run].subgridspec(2, 1, height_ratios=(2.4, 1.0), hspace=0.06)
        upper = figure.add_subplot(inner[0], sharex=panels[0][0] if panels else None)
        lower = figure.add_subplot(inner[1], sharex=upper)
        for axes in (upper, lower):
            axes.tick_params(axis="x", labelbottom=False)
        panels.append((upper, lower))
    return figure, panels


_STRIP_FIELDS = ("prefill_tokens", "num_decodes")


def _draw_lanes(
    axes: Axes, lanes: Sequence[Lane], window: tuple[float, float], threshold: float
) -> None:
    begin, end = window
    waits: Segments = []
    ticks: Segments = []
    lines: Segments = []
    prefills: list[NDArray[np.float64]] = []
    stalls: list[NDArray[np.float64]] = []
    for height, lane in enumerate(lanes):
        y = -float(height)
        waits.append(((lane.arrival_s, y), (min(lane.scheduled_s, end), y)))
        prefills.append(_box(lane.scheduled_s, min(lane.first_token_s, end), y, BAR))
        lines.append(((lane.first_token_s, y), (min(lane.finish_s, end), y)))
        times = lane.tokens_s
        ticks += [((t, y - TICK), (t, y + TICK)) for t in times[(times >= begin) & (times <= end)]]
        long = np.flatnonzero(np.diff(times) > threshold)
        stalls += [_box(times[i], times[i + 1], y, BAR) for i in long.tolist()]
    axes.add_collection(LineCollection(waits, colors="0.6", linewidths=1.0, linestyles=":"))
    axes.add_collection(LineCollection(lines, colors=BLUE, linewidths=0.7, alpha=0.6))
    axes.add_collection(
        PolyCollection(prefills, facecolors=ORANGE, edgecolors="0.25", linewidths=0.4, hatch="////")
    )
    axes.add_collection(
        PolyCollection(stalls, facecolors=VERMILLION, edgecolors="black", linewidths=0.5, zorder=3)
    )
    axes.add_collection(LineCollection(ticks, colors=BLUE, linewidths=0.8, zorder=4))
    axes.set_ylim(-len(lanes) + 0.4, 0.6)
    axes.set_yticks([-float(place) for place in range(len(lanes))], [lane.request_id for lane in lanes])
    axes.tick_params(axis="y", labelsize=6, length=0)
    axes.set_ylabel("request", fontsize=8)
    axes.grid(axis="x", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)


def _title(axes: Axes, view: RunView, gap: Stall | None) -> None:
    tbt = view.summary["tbt_s"]
    axes.set_title(view.name, fontsize=11, fontweight="bold", loc="left", pad=3)
    here = "" if gap is None else (
        f"longest wait for a token here: {seconds(gap.end_s - gap.start_s)}, decodes waiting: {gap.decodes}; "
    )  # fmt: skip
    axes.set_title(
        f"{here}over the run: TBT p99 {seconds(tbt['p99'])}, max {seconds(tbt['max'])}",
        fontsize=8.5, loc="right", pad=3,
    )  # fmt: skip


def _draw_strip(axes: Axes, steps: Steps, most: Sequence[float]) -> None:
    """Prefill tokens upwards, decodes downwards, each beside the most in any run here.

    Heights go with the square root, so that a chunk can be seen beside a long prompt.
    """
    prefill = np.sqrt(steps.prefill_tokens / (most[0] or 1))
    decodes = np.sqrt(steps.num_decodes / (most[1] or 1))
    up = [_bar(s, e, h) for s, e, h in zip(steps.start_s, steps.end_s, prefill, strict=True) if h]
    down = [_bar(s, e, -h) for s, e, h in zip(steps.start_s, steps.end_s, decodes, strict=True) if h]
    axes.add_collection(
        PolyCollection(up, facecolors=ORANGE, edgecolors="0.25", linewidths=0.4, hatch="////")
    )
    axes.add_collection(PolyCollection(down, facecolors=BLUE, edgecolors="white", linewidths=0.4))
    axes.axhline(0, color="0.3", linewidth=0.6)
    axes.set_ylim(-1.1, 1.1)
    labels = [f"{most[0]:,.0f}", f"{most[0] / 4:,.0f}", "0", f"{most[1]:,.0f}"]
    axes.set_yticks([1, 0.5, 0, -1], labels)
    axes.tick_params(axis="y", labelsize=6.5)
    axes.set_ylabel("decodes / prefill", fontsize=6.5)
    axes.spines[["top", "right"]].set_visible(False)


def _box(start: float, end: float, y: float, half: float) -> NDArray[np.float64]:
    return np.array([(start, y - half), (end, y - half), (end, y + half), (start, y + half)])


def _bar(start: float, end: float, height: float) -> NDArray[np.float64]:
    return np.array([(start, 0.0), (start, height), (end, height), (end, 0.0)])


def _legend(figure: Figure, threshold: float) -> None:
    handles = [
        Line2D([], [], color="0.6", linestyle=":", label="waiting"),
        Patch(facecolor=ORANGE, edgecolor="0.25", hatch="////", label="prefill"),
        Line2D([], [], color=BLUE, marker="|", markersize=9, linewidth=0.7, label="decode, a tick a token"),
        Patch(facecolor=VERMILLION, edgecolor="black", label=f"stalled: no token for {seconds(threshold)}"),
        Patch(facecolor=BLUE, label="iterations: prefill tokens up, decodes down (root scale)"),
    ]
    figure.legend(
        handles=handles, loc="upper center", ncols=5, frameon=False, fontsize=8, columnspacing=1.4
    )
