"""The ablation as points: P50 TTFT against P99 TBT, ours with intervals beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from sim.report.plots.figure import BLUE, GREEN, VERMILLION, new_figure, tidy
from sim.report.statistics import Interval, interval

MARKS = {"hybrid only": ("o", VERMILLION), "chunked only": ("s", GREEN), "both": ("^", BLUE)}
"""Variant to marker and colour."""
HOLLOW: dict[str, Any] = {"mfc": "white", "ms": 9, "mew": 1.6}
"""How the paper's points look."""
TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)


def ablation_points(
    results: pd.DataFrame, paper: Mapping[tuple[str, str], tuple[float, float]], workloads: Mapping[str, str]
) -> Figure:
    """`results` has workload, variant, budget, ttft_p50_s and tbt_p99_s; one panel a workload."""
    figure = new_figure(10, 5.0)
    panels = figure.subplots(1, len(workloads))
    figure.subplots_adjust(left=0.075, right=0.98, bottom=0.115, top=0.8, wspace=0.16)
    for axes, (workload, title) in zip(panels, workloads.items(), strict=True):
        _ours(axes, results[results["workload"] == workload])
        for variant, (marker, color) in MARKS.items():
            axes.plot(*paper[workload, variant], marker=marker, color=color, ls="", **HOLLOW)
        axes.set(xscale="log", yscale="log", title=title, xlabel="P50 TTFT (s)")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator(TICKS_S))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.margins(0.12)
        tidy(axes)
    panels[0].set_ylabel("P99 TBT (s)")
    figure.legend(handles=_legend(), loc="upper center", ncols=3, frameon=False)
    return figure


def _ours(axes: Axes, results: pd.DataFrame) -> None:
    for (variant, budget), group in results.groupby(["variant", "budget"], sort=False, dropna=False):
        marker, color = MARKS[str(variant)]
        ttft = interval(group["ttft_p50_s"].to_numpy())
        tbt = interval(group["tbt_p99_s"].to_numpy())
        axes.errorbar(
            ttft.mean, tbt.mean, xerr=_arms(ttft), yerr=_arms(tbt), marker=marker, color=color, ms=9,
            elinewidth=1, capsize=2, ls="",
        )  # fmt: skip
        if isinstance(budget, str):
            axes.annotate(
                budget, (ttft.mean, tbt.mean), (0, -16), textcoords="offset points", fontsize=8, ha="center"
            )


def _arms(found: Interval) -> list[list[float]] | None:
    if found.low is None or found.high is None:
        return None
    # on a log axis an arm must not reach 0
    low = max(found.low, found.mean / 10)
    return [[found.mean - low], [found.high - found.mean]]


def _legend() -> list[Line2D]:
    ours = [
        Line2D([], [], marker=marker, color=color, ls="", ms=9, label=f"{variant}, ours")
        for variant, (marker, color) in MARKS.items()
    ]
    theirs = [
        Line2D([], [], marker=marker, color=color, ls="", label=f"{variant}, paper", **HOLLOW)
        for variant, (marker, color) in MARKS.items()
    ]
    # columns are filled one after another: a variant's two marks share one
    return [handle for pair in zip(ours, theirs, strict=True) for handle in pair]
