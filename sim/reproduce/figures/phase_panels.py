"""Phases in panels: prefill by prompt, token time by batch, and SLO attainment by rate for each hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from sim.report.plots.figure import BLUE, GREEN, KNOWN_STYLES, SKY, VERMILLION, Style, new_figure, tidy

GPU_STYLES = {"A100": (Style(VERMILLION, (0, (6, 1.5))), "s"), "H100": (Style(BLUE, "-"), "o")}
POLICY_STYLES = {
    **{name: KNOWN_STYLES[name] for name in ("static", "continuous", "prefill_first")},
    "stall_free 512": Style(SKY, "-"),
    "stall_free 1024": Style(GREEN, (0, (10, 2))),
    "stall_free 2048": Style(BLUE, "-"),
}
POLICY_MARKERS = dict(zip(POLICY_STYLES, "osX^Dv", strict=True))


def phase_panels(
    prefill: pd.DataFrame,
    token: pd.DataFrame,
    hours: pd.DataFrame,
    objectives: Mapping[str, str],
    attainment: float,
) -> Figure:
    """The tables of sim/reproduce/phases.py; measured points are hollow. A column an hour."""
    figure = new_figure(11, 11.5)
    panels = figure.subplots(1 + len(objectives), 2)
    figure.subplots_adjust(left=0.065, right=0.98, bottom=0.05, top=0.965, wspace=0.15, hspace=0.3)
    _phase(panels[0, 0], prefill, "prompt_tokens", "one prompt alone (ms)", "prompt tokens")
    _phase(panels[0, 1], token, "batch", "one token of each request (ms)", "requests in the batch")
    panels[0, 0].set_yscale("log")
    _plain(panels[0, 0], y_ticks=(20, 50, 100, 200, 500, 1000, 2000))
    panels[0, 1].set_ylim(0, None)
    names = list(hours["hour"].unique())
    for (objective, meaning), row in zip(objectives.items(), panels[1:], strict=True):
        for axes, name in zip(row, names, strict=False):
            _attainment(axes, hours[hours["hour"] == name], objective, attainment)
            axes.set_title(f"{name} hour: within SLO (%), {meaning}")
        for axes in row[len(names) :]:
            axes.set_visible(False)
    panels[1, len(names) - 1].legend(fontsize=8, loc="upper right", framealpha=1, edgecolor="none")
    for axes in figure.axes:
        tidy(axes)
    return figure


def _phase(axes: Axes, table: pd.DataFrame, key: str, title: str, label: str) -> None:
    for gpu, group in table.groupby("gpu", sort=False):
        style, marker = GPU_STYLES[str(gpu)]
        ours = {"color": style.color, "ls": style.dashes, "lw": 1.5}
        axes.plot(group[key], group["ours_ms"], label=f"{gpu}, cost model", **ours)
        hollow: dict[str, Any] = {
            "color": style.color,
            "marker": marker,
            "ls": "",
            "ms": 7,
            "mfc": "white",
            "mew": 1.5,
        }
        axes.plot(group[key], group["measured_ms"], label=f"{gpu}, measured", **hollow)
    axes.set(xscale="log", xlabel=label, title=title)
    axes.xaxis.set_major_locator(FixedLocator([int(value) for value in table[key].unique()]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _plain(axes: Axes, y_ticks: Sequence[int]) -> None:
    axes.yaxis.set_major_locator(FixedLocator(list(y_ticks)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _attainment(axes: Axes, hours: pd.DataFrame, objective: str, attainment: float) -> None:
    for policy, group in hours.groupby("policy", sort=False):
        style = POLICY_STYLES[str(policy)]
        look = {"color": style.color, "ls": style.dashes, "marker": POLICY_MARKERS[str(policy)], "ms": 4.5}
        width = 2.0 if str(policy) == "stall_free 2048" else 1.4
        axes.plot(group["requests_per_s"], 100 * group[objective], lw=width, label=str(policy), **look)
    axes.axhline(100 * attainment, color="0.4", lw=0.8)
    axes.set(xlabel="arrival rate (requests/s)", ylim=(0, 102), xlim=(0, None))
