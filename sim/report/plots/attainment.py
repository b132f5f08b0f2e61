"""Attainment: the share of requests within their SLO, and goodput, as the arrival rate rises."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from sim.report.plots.figure import Style, name_legend, new_figure, styles_of, tidy

GOOD_SHARE = 0.9
"""The share that DistServe (OSDI 2024) and others ask for."""


def draw(frame: pd.DataFrame, best: pd.DataFrame, objective: str) -> Figure:
    """Curves of what `attainment` returned, means over seeds with their range; a dot at each best rate."""
    policies = [str(policy) for policy in frame["policy"].unique()]
    figure = new_figure(10, 4.6)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.075, right=0.98, bottom=0.12, top=0.82, wspace=0.22)
    by_name = styles_of(policies)
    for policy in policies:
        rows = frame[frame["policy"] == policy].groupby("rate_per_s")
        _curve(left, rows["slo_attainment"], by_name[policy])
        _curve(right, rows["goodput"], by_name[policy])
        peak = best[best["policy"] == policy].iloc[0]
        at, goodput = peak["rate_per_s"], peak["goodput"]
        right.plot(at, goodput, "o", color=by_name[policy].color, markersize=6, zorder=5)
    left.axhline(GOOD_SHARE, color="0.6", linewidth=0.8, zorder=0)
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set(ylim=(0, 1.03), ylabel="requests within their SLO")
    left.set_title(f"SLO attainment ({objective})", fontsize=10, loc="left")
    last = float(frame["rate_per_s"].max())
    right.plot([0, last], [0, last], color="0.6", linewidth=0.8, zorder=0)
    right.set(ylim=(0, 1.12 * max(float(frame["goodput"].max()), 1e-9)), ylabel="requests/s within their SLO")
    right.set_title("Goodput, with its highest marked; grey: all that arrive", fontsize=10, loc="left")
    for axes in (left, right):
        axes.set(xlabel="arrival rate (requests/s)", xlim=(0, last))
        tidy(axes)
    name_legend(figure, policies)
    return figure


def _curve(axes: Axes, values: object, style: Style) -> None:
    mean = values.mean()  # type: ignore[attr-defined]
    low, high = values.min(), values.max()  # type: ignore[attr-defined]
    rates = mean.index.to_numpy(dtype=np.float64)
    axes.plot(rates, mean.to_numpy(), color=style.color, linestyle=style.dashes, linewidth=1.7)
    if (high > low).any():
        axes.fill_between(rates, low.to_numpy(), high.to_numpy(), color=style.color, alpha=0.12, linewidth=0)
