"""What prefill costs, in three panels: chunk overhead, saturation, and prompts beside decodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sim.report.plots.figure import BLUE, GREEN, VERMILLION, Style, new_figure, tidy

CHUNK_STYLES = {"512": (BLUE, "o"), "1024": (GREEN, "s"), "2048": (VERMILLION, "^")}
MODEL_STYLES = (Style(BLUE, "-"), Style(VERMILLION, (0, (6, 1.5))), Style(GREEN, (0, (1.5, 1.5))))
HOLLOW: dict[str, Any] = {"ms": 8, "mfc": "white", "mew": 1.5, "lw": 0.8, "ls": ":"}
"""How the artifact's points look."""


def prefill_panels(
    overhead: pd.DataFrame, paper: Mapping[tuple[int, str], float], rates: pd.DataFrame, beside: pd.DataFrame
) -> Figure:
    """The tables of sim/reproduce/prefill_cost.py; the paper's points are hollow."""
    figure = new_figure(12, 4.8)
    chunks, rate, decodes = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.055, right=0.985, bottom=0.13, top=0.78, wspace=0.22)
    _chunks(chunks, overhead, paper)
    _rates(rate, rates)
    _beside(decodes, beside)
    for axes in (chunks, rate, decodes):
        tidy(axes)
    return figure


def _chunks(axes: Axes, overhead: pd.DataFrame, paper: Mapping[tuple[int, str], float]) -> None:
    for chunk, group in overhead.groupby("chunk", sort=False):
        color, marker = CHUNK_STYLES[str(chunk)]
        prompts = group["prompt_tokens"].to_numpy()
        axes.plot(prompts, group["over_whole"], color=color, marker=marker, ms=6, lw=1.4)
        theirs = [paper[int(prompt), str(chunk)] for prompt in prompts]
        axes.plot(prompts, theirs, color=color, marker=marker, **HOLLOW)
    axes.axhline(1.0, color="0.4", lw=0.8)
    _log_tokens(axes, [2048, 4096, 8192, 16384])
    axes.set(xlabel="prompt tokens", title="prefill in chunks, over whole")
    handles = [
        Line2D([], [], color=color, marker=marker, ms=6, label=f"chunks of {chunk}")
        for chunk, (color, marker) in CHUNK_STYLES.items()
    ]
    hollow = Line2D([], [], color="0.3", marker="o", label="artifact", **HOLLOW)
    _legend_above(axes, [*handles, hollow], 2)


def _rates(axes: Axes, rates: pd.DataFrame) -> None:
    for (name, group), style in zip(rates.groupby("model", sort=False), MODEL_STYLES, strict=True):
        axes.plot(
            group["prompt_tokens"], 100 * group["share_of_best"], color=style.color, ls=style.dashes,
            label=str(name), lw=1.5,
        )  # fmt: skip
    axes.axhline(90, color="0.4", lw=0.8)
    _log_tokens(axes, [16, 64, 256, 1024, 4096])
    axes.set(xlabel="prompt tokens", title="prefill rate, % of its best", ylim=(0, 102))
    _legend_above(axes, axes.get_lines()[: len(MODEL_STYLES)], 2)


def _beside(axes: Axes, beside: pd.DataFrame) -> None:
    """At the smallest batch, where a prompt shows most, as the paper has it."""
    fewest = beside[beside["decodes"] == beside["decodes"].min()]
    for (_, group), style in zip(fewest.groupby("model", sort=False), MODEL_STYLES, strict=True):
        look = {"color": style.color, "ls": style.dashes, "lw": 1.5}
        axes.plot(group["prompt_tokens"], group["whole_over_alone"], marker="o", ms=5, **look)
        axes.plot(group["prompt_tokens"], group["chunk_over_alone"], marker="x", ms=6, **look)
    axes.axhline(28.3, color="0.4", lw=0.8)
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate("paper: up to 28.3", (0.02, 28.3), (0, 3), fontsize=8, color="0.3", **place)
    ticks = beside["prompt_tokens"].unique()
    _log_tokens(axes, [int(tick) for tick in ticks[:: max(1, len(ticks) // 4)]])
    title = f"TBT of {fewest['decodes'].iloc[0]} decodes, over decode-only"
    axes.set(yscale="log", xlabel="prompt tokens", title=title)
    axes.yaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100, 200]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(1, max(40.0, 1.2 * float(np.max(fewest["whole_over_alone"]))))
    handles = [
        Line2D([], [], color="0.3", marker="o", ms=5, label="whole prompt beside them"),
        Line2D([], [], color="0.3", marker="x", ms=6, label="last chunk within a budget of 512"),
    ]
    _legend_above(axes, handles, 1)


def _legend_above(axes: Axes, handles: list[Line2D], columns: int) -> None:
    above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.08)}
    axes.legend(handles=handles, ncols=columns, frameon=False, fontsize=8, **above)


def _log_tokens(axes: Axes, ticks: list[int]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
