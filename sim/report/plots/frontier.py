"""Frontier: throughput against latency for variants of policies; those that no other beats are marked."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sim.report.plots.figure import Style, name_legend, new_figure, short_time, styles_of, tidy

THROUGHPUT = "throughput.output_tokens_per_s"
PANELS = (("tbt_s.p99", "TBT p99"), ("ttft_s.p99", "TTFT p99"))
SIZES = ("o", "s", "^", "D", "v", "P")
"""A marker a batch size."""
STEPS: dict[str, Any] = {"color": "0.55", "linewidth": 5, "alpha": 0.35, "solid_capstyle": "round"}
NAME_APART = 32
"""Pixels between points for each to have its budget written beside it."""


def draw(frame: pd.DataFrame, title: str) -> Figure:
    """Two panels of what `frontier` returned; a line joins the budgets of a policy and batch size."""
    policies = [str(policy) for policy in frame["policy"].unique()]
    figure = new_figure(11, 5.4)
    left, right = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.075, right=0.985, bottom=0.11, top=0.79, wspace=0.06)
    for axes, (latency, label) in zip((left, right), PANELS, strict=True):
        _panel(axes, frame, latency, styles_of(policies))
        axes.set_xlabel(label)
    left.set_ylabel("output tokens/s")
    figure.text(0.075, 0.85, title, fontsize=9, color="0.3")
    name_legend(figure, policies, _extra_handles(frame))
    return figure


def _panel(axes: Axes, frame: pd.DataFrame, latency: str, by_name: dict[str, Style]) -> None:
    axes.set_xscale("log")
    sizes = _sizes(frame)
    for size in [*sizes, None] if frame["max_batch_size"].isna().any() else sizes:
        of_size = frame[frame["max_batch_size"].isna() if size is None else frame["max_batch_size"] == size]
        marker = SIZES[0] if size is None else SIZES[sizes.index(size) % len(SIZES)]
        for policy in of_size["policy"].unique():
            _line(axes, of_size[of_size["policy"] == policy], latency, by_name[str(policy)], marker)
    _join_frontier(axes, frame, latency)
    _bound(axes, frame)
    axes.set_ylim(bottom=0)
    tidy(axes)
    _label_times(axes)
    most = frame[frame["max_batch_size"] == sizes[-1]] if sizes else frame
    for policy in most["policy"].unique():
        _name_budgets(axes, most[most["policy"] == policy], latency)


def _line(axes: Axes, rows: pd.DataFrame, latency: str, style: Style, marker: str) -> None:
    """One policy at one batch size: its budgets, or, without any, a single point drawn larger."""
    x, y = rows[latency].to_numpy(), rows[THROUGHPUT].to_numpy()
    axes.plot(x, y, color=style.color, linestyle=style.dashes, linewidth=1.1, alpha=0.75)
    alone = len(rows) == 1
    axes.plot(
        x, y, marker, color=style.color, markersize=10 if alone else 4.5,
        markerfacecolor="none" if alone else "white",
    )  # fmt: skip
    best = rows[rows[f"on_frontier.{latency}"]]
    axes.plot(best[latency], best[THROUGHPUT], marker, color=style.color, markersize=6)


def _name_budgets(axes: Axes, rows: pd.DataFrame, latency: str) -> None:
    """The budget beside each point that is not too near the one named before."""
    named = None
    for _, row in rows[rows["token_budget"].notna() & rows[latency].notna()].iterrows():
        place = axes.transData.transform((row[latency], row[THROUGHPUT]))
        if named is not None and abs(place - named).max() < NAME_APART:
            continue
        named = place
        axes.annotate(
            f"{row['token_budget']:.0f}", (row[latency], row[THROUGHPUT]), textcoords="offset points",
            xytext=(5, -10) if latency.startswith("tbt") else (6, 3), fontsize=7, color="0.35",
        )  # fmt: skip


def _join_frontier(axes: Axes, frame: pd.DataFrame, latency: str) -> None:
    """Steps through the variants that no other beats."""
    best = frame[frame[f"on_frontier.{latency}"]].sort_values(latency)
    axes.step(best[latency], best[THROUGHPUT], where="post", zorder=0, **STEPS)


def _bound(axes: Axes, frame: pd.DataFrame) -> None:
    bound = frame["bound"].dropna()
    if len(bound):
        height = float(bound.iloc[0])
        axes.axhline(height, color="0.4", linewidth=1, linestyle=":")
        inside = axes.get_yaxis_transform()
        words = "no policy has more"
        axes.text(0.99, height, words, transform=inside, fontsize=8, color="0.35", ha="right", va="bottom")


def _label_times(axes: Axes) -> None:
    left, right = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if right / left < 30 else (1.0, 3.0) if right / left < 200 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(short_time))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _sizes(frame: pd.DataFrame) -> list[float]:
    return sorted(float(size) for size in frame["max_batch_size"].dropna().unique())


def _extra_handles(frame: pd.DataFrame) -> list[Line2D]:
    """What filled markers on the grey steps mean, and the markers of batch sizes."""
    handles = [Line2D([], [], marker="o", markerfacecolor="0.2", label="no variant is better", **STEPS)]
    sizes = _sizes(frame)
    if len(sizes) > 1:
        style: dict[str, Any] = {"color": "0.2", "linestyle": "", "markerfacecolor": "white"}
        handles += [
            Line2D([], [], marker=SIZES[place % len(SIZES)], label=f"batch size {size:.0f}", **style)
            for place, size in enumerate(sizes)
        ]
    return handles
