"""The ablation at lower rates: how far P50 TTFT hangs on the load, and where the paper's values lie."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from sim.report.plots.figure import new_figure, tidy
from sim.reproduce.figures.ablation_points import HOLLOW, MARKS, TICKS_S


def ablation_rates(
    rates: pd.DataFrame, paper: Mapping[tuple[str, str], tuple[float, float]], workloads: Mapping[str, str]
) -> Figure:
    """`rates` has workload, variant, budget, rate_per_s, ttft_p50_s, tbt_p99_s; a column a workload."""
    figure = new_figure(10, 6.6)
    panels = figure.subplots(2, len(workloads), sharex="col")
    figure.subplots_adjust(left=0.075, right=0.98, bottom=0.085, top=0.86, wspace=0.16, hspace=0.12)
    for column, (workload, title) in enumerate(workloads.items()):
        table = rates[rates["workload"] == workload]
        for place, key in enumerate(("ttft_p50_s", "tbt_p99_s")):
            axes = panels[place, column]
            for (variant, budget), group in table.groupby(["variant", "budget"], sort=False, dropna=False):
                marker, color = MARKS[str(variant)]
                means = group.groupby("rate_per_s")[key].mean()
                line = "--" if budget == "512" else "-"
                axes.plot(means.index, means, color=color, marker=marker, ms=5, ls=line, lw=1.4)
            for variant, (marker, color) in MARKS.items():
                level = paper[workload, variant][place]
                end = table["rate_per_s"].max()
                axes.plot(end, level, marker=marker, color=color, ls="", zorder=4, clip_on=False, **HOLLOW)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(FixedLocator(TICKS_S))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            tidy(axes)
        panels[0, column].set_title(title)
        panels[1, column].set_xlabel("arrival rate (requests/s)")
    panels[0, 0].set_ylabel("P50 TTFT (s)")
    panels[1, 0].set_ylabel("P99 TBT (s)")
    figure.legend(handles=_legend(), loc="upper center", ncols=3, frameon=False)
    return figure


def _legend() -> list[Line2D]:
    variants = [
        Line2D([], [], marker=marker, color=color, ms=6, label=f"{variant}")
        for variant, (marker, color) in MARKS.items()
    ]
    budgets = [
        Line2D([], [], color="0.3", ls="-", label="budget 1024 (hybrid only: none)"),
        Line2D([], [], color="0.3", ls="--", label="budget 512"),
        Line2D([], [], color="0.3", marker="o", ls="", label="paper, at its script's rate", **HOLLOW),
    ]
    return [handle for pair in zip(variants, budgets, strict=True) for handle in pair]
