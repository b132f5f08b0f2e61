"""Static against continuous batching: gain and idle slots by spread of outputs, latency by rate."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from sim.report.plots.figure import BLACK, KNOWN_STYLES, ORANGE, SKY, Style, new_figure, tidy
from sim.report.statistics import interval, paired

RATE_STYLES = {
    "static 1": Style(SKY, (0, (1.5, 1.5))),
    "static 8": Style(ORANGE, (0, (4, 2))),
    "static 32": KNOWN_STYLES["static"],
    "continuous": KNOWN_STYLES["continuous"],
}


def static_panels(spreads: pd.DataFrame, expected: pd.DataFrame, rates: pd.DataFrame) -> Figure:
    """The tables of sim/reproduce/static_batching.py; bars are 95 % intervals over seeds."""
    figure = new_figure(12, 4.4)
    gain, idle, latency = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.05, right=0.985, bottom=0.14, top=0.9, wspace=0.22)
    _gain(gain, spreads, expected)
    _idle(idle, spreads, expected)
    _latency(latency, rates)
    for axes in (gain, idle, latency):
        tidy(axes)
    return figure


def _gain(axes: Axes, spreads: pd.DataFrame, expected: pd.DataFrame) -> None:
    theory = "if every iteration took as long:\nlongest of a batch over mean"
    axes.plot(expected["spread"], expected["ratio"], color="0.72", lw=3.0, label=theory)
    table = spreads.pivot(index=["spread", "seed"], columns="policy", values="requests_per_s")
    for spread, group in table.groupby(level="spread"):
        ratio = paired(group["continuous"].to_numpy(), group["static"].to_numpy()).ratio
        assert ratio is not None
        low, high = ratio.low or ratio.mean, ratio.high or ratio.mean
        axes.errorbar(
            float(str(spread)),
            ratio.mean,
            yerr=[[ratio.mean - low], [high - ratio.mean]],
            label="simulated" if spread == expected["spread"].iloc[0] else None,
            color=BLACK,
            marker="o",
            ms=5,
            capsize=2,
            ls="",
        )
    axes.set(xlabel="spread of outputs (std / mean)", title="throughput, continuous over static")
    axes.set_ylim(0, None)
    axes.axhline(1, color="0.6", lw=0.8)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _idle(axes: Axes, spreads: pd.DataFrame, expected: pd.DataFrame) -> None:
    theory = "1 - mean / E[longest of 32]"
    axes.plot(expected["spread"], 100 * expected["idle_share"], color="0.72", lw=3.0, label=theory)
    for policy, group in spreads.groupby("policy", sort=False):
        style = KNOWN_STYLES[str(policy)]
        found = [interval(part["idle_share"].to_numpy()) for _, part in group.groupby("spread")]
        means = np.array([100 * each.mean for each in found])
        look = {"color": style.color, "ls": style.dashes, "marker": "o", "ms": 5, "lw": 1.4}
        axes.plot(sorted(group["spread"].unique()), means, label=str(policy), **look)
    axes.set(xlabel="spread of outputs (std / mean)", title="idle slots (%)", ylim=(0, 100))
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _latency(axes: Axes, rates: pd.DataFrame) -> None:
    for policy, group in rates.groupby("policy", sort=False):
        style = RATE_STYLES[str(policy)]
        means = group.groupby("rate_per_s")["latency_per_token_s"].mean()
        look = {"color": style.color, "ls": style.dashes, "marker": "o", "ms": 4, "lw": 1.5}
        axes.plot(means.index, means, label=str(policy), **look)
    axes.set(xscale="log", yscale="log", xlabel="arrival rate (requests/s)")
    axes.set_title("median latency per token (s)")
    axes.xaxis.set_major_locator(FixedLocator([0.05, 0.1, 0.2, 0.5, 1, 2, 4]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, fontsize=8, loc="upper left")
