"""Plots of a validation: measured and simulated distributions over each other, and load over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from sim.report.plots.figure import BLACK, BLUE, GREEN, VERMILLION, new_figure, tidy

Seconds = NDArray[np.float64]

PANELS = (
    ("ttft_queued_s", "TTFT from queued (s)"),
    ("ttft_s", "TTFT from arrival (s)"),
    ("tpot_s", "TPOT (ms)"),
    ("e2e_s", "E2E (s)"),
)
MEASURED: dict[str, Any] = {
    "color": BLACK,
    "linestyle": "-",
    "linewidth": 2.4,
    "alpha": 0.55,
    "label": "measured",
}
SIMULATED: dict[str, Any] = {
    "color": BLUE,
    "linestyle": (0, (4, 1.5)),
    "linewidth": 1.5,
    "label": "simulated",
}
GPU_COLOURS = (BLUE, VERMILLION, GREEN)
GPU_MARKERS = ("o", "^", "s")


def draw_distributions(measured: Mapping[str, Seconds], simulated: Mapping[str, Seconds]) -> Figure:
    """The share of requests at or below each value, for every metric that was measured."""
    panels = [(metric, label) for metric, label in PANELS if np.isfinite(measured[metric]).any()]
    figure = new_figure(10, 6.6 if len(panels) > 2 else 3.6)
    axes = figure.subplots(-(-len(panels) // 2), 2, squeeze=False).ravel()
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.09, top=0.9, hspace=0.34, wspace=0.18)
    for panel, (metric, label) in zip(axes, panels, strict=False):
        scale = 1e3 if label.endswith("(ms)") else 1.0
        for values, style in ((measured[metric], MEASURED), (simulated[metric], SIMULATED)):
            ordered = np.sort(values[np.isfinite(values)]) * scale
            panel.plot(ordered, np.arange(1, len(ordered) + 1) / len(ordered), **style)
        panel.set_xlabel(label)
        panel.set_ylim(0, 1)
        panel.set_xlim(left=0)
        tidy(panel)
    for panel in axes[::2]:
        panel.set_ylabel("share of requests")
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    _legend(figure)
    return figure


def draw_load(timeline: Mapping[str, Seconds]) -> Figure:
    """Running and waiting requests at the times they were sampled."""
    figure = new_figure(10, 5)
    panels = figure.subplots(2, 1, sharex=True)
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.1, top=0.91, hspace=0.12)
    for panel, name in zip(panels, ("running", "waiting"), strict=True):
        panel.plot(timeline["t"], timeline[f"measured_{name}"], **MEASURED)
        panel.plot(timeline["t"], timeline[f"simulated_{name}"], **SIMULATED)
        panel.set_ylabel(f"{name} requests")
        panel.set_ylim(bottom=0)
        tidy(panel)
    panels[-1].set_xlim(left=0)
    panels[-1].set_xlabel("time since the first arrival (s)")
    _legend(figure)
    return figure


def draw_closed_loop(rows: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Simulated against measured mean TTFT and TPOT, one point a row, and the errors below them."""
    figure = new_figure(10, 7.2)
    panels = figure.subplots(2, 2, sharex="col", height_ratios=(3, 2))
    figure.subplots_adjust(left=0.075, right=0.98, bottom=0.08, top=0.92, wspace=0.2, hspace=0.08)
    for column, metric in enumerate(("ttft", "tpot")):
        measured, simulated = rows[f"measured_{metric}_ms"], rows[f"simulated_{metric}_ms"]
        above, below = panels[0, column], panels[1, column]
        _diagonal(above, measured, simulated)
        _band(below)
        for panel, shown in ((above, simulated), (below, rows[f"{metric}_error_pct"])):
            _points(panel, rows, measured, shown)
        above.set_ylabel(f"simulated mean {metric.upper()} (ms)")
        below.set_ylabel("error (%)")
        below.set_xlabel(f"measured mean {metric.upper()} (ms)")
    figure.legend(handles=_closed_loop_handles(rows), loc="upper center", ncols=4, frameon=False)
    return figure


def _points(panel: Axes, rows: Mapping[str, Seconds], x: Seconds, y: Seconds) -> None:
    """One marker a point: colour and shape by GPU, hollow where it waited for memory."""
    limited = rows["kv_limited"].astype(bool)
    for place, gpu in enumerate(_gpus(rows)):
        for part, fill in ((~limited, GPU_COLOURS[place % 3]), (limited, "none")):
            chosen = part & (rows["gpu"] == gpu)
            style: dict[str, Any] = {"markeredgecolor": GPU_COLOURS[place % 3], "markerfacecolor": fill}
            panel.plot(x[chosen], y[chosen], GPU_MARKERS[place % 3], markersize=5, alpha=0.85, **style)
    tidy(panel)


def _gpus(rows: Mapping[str, Seconds]) -> list[str]:
    return sorted({str(gpu) for gpu in rows["gpu"]})


def _closed_loop_handles(rows: Mapping[str, Seconds]) -> list[Line2D]:
    handles = [
        Line2D([], [], color=GPU_COLOURS[place % 3], marker=GPU_MARKERS[place % 3], linestyle="", label=gpu)
        for place, gpu in enumerate(_gpus(rows))
    ]
    hollow = Line2D(
        [], [], color="0.4", marker="o", markerfacecolor="none", linestyle="", label="waited for KV"
    )
    return [*handles, hollow, Line2D([], [], color="0.5", label="equal; dotted: 10 % off")]


def _band(panel: Axes) -> None:
    panel.axhline(0, color="0.5", linewidth=1)
    for error in (-10, 10):
        panel.axhline(error, color="0.5", linewidth=0.8, linestyle=":")


def _diagonal(panel: Axes, measured: Seconds, simulated: Seconds) -> None:
    low, high = min(measured.min(), simulated.min()) * 0.85, max(measured.max(), simulated.max()) * 1.15
    ends = np.array([low, high])
    panel.plot(ends, ends, color="0.5", linewidth=1)
    for factor in (0.9, 1.1):
        panel.plot(ends, ends * factor, color="0.5", linewidth=0.8, linestyle=":")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(low, high)
    panel.set_ylim(low, high)


def _legend(figure: Figure) -> None:
    handles = [Line2D([], [], **style) for style in (MEASURED, SIMULATED)]
    figure.legend(handles=handles, loc="upper center", ncols=2, frameon=False, handlelength=3)
