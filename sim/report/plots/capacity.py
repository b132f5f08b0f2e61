"""Capacity: a bar a policy, the highest rate that meets the SLO, and how many times the lowest it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.report.plots.figure import Style, new_figure, styles_of, tidy
from sim.report.statistics import FEWEST_SEEDS, interval

HATCHES = ("", "//", "xx", "..", "\\\\", "++")


def draw(frame: pd.DataFrame, title: str) -> Figure:
    """Bars of what `capacity` returned; over several seeds the mean, a dot a seed, and, if they are
    enough, the interval."""
    policies = [str(policy) for policy in frame["policy"].unique()]
    figure = new_figure(9, 1.5 + 0.55 * len(policies))
    axes = figure.subplots()
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.17, right=0.97, bottom=0.62 / height, top=1 - 0.65 / height)
    by_name = styles_of(policies)
    means = {policy: frame.loc[frame["policy"] == policy, "capacity_per_s"].mean() for policy in policies}
    known = [mean for mean in means.values() if mean == mean]
    for place, policy in enumerate(policies):
        rows = frame[frame["policy"] == policy]
        _bar(axes, place, rows, by_name[policy], HATCHES[place % len(HATCHES)], min(known, default=np.nan))
    _bound(axes, frame)
    axes.set_yticks(range(len(policies)), policies)
    axes.invert_yaxis()
    axes.set_xlabel("requests/s (in brackets: times the lowest)")
    axes.set_title(title, fontsize=10, loc="left", pad=18)
    axes.margins(x=0.15)
    axes.set_xlim(left=0)
    tidy(axes)
    axes.grid(False, axis="y")
    return figure


def _bar(axes: Axes, place: int, rows: pd.DataFrame, style: Style, hatch: str, least: float) -> None:
    values = rows["capacity_per_s"].dropna().to_numpy(dtype=np.float64)
    if not len(values):
        axes.text(0, place, " fails at every rate tried", va="center", fontsize=9)
        return
    found = interval(values)
    axes.barh(place, found.mean, height=0.6, color=style.color, alpha=0.75, hatch=hatch, edgecolor="white")
    end = found.mean
    if found.low is not None and found.high is not None and len(values) >= FEWEST_SEEDS:
        axes.plot([found.low, found.high], [place, place], color="black", linewidth=1.5)
        end = max(end, found.high)
    if len(values) > 1:
        axes.plot(values, np.full(len(values), place + 0.18), "o", color="black", markersize=2.5, alpha=0.6)
        end = max(end, float(values.max()))
    label = f" {found.mean:.3g}"
    if found.mean > least * 1.005:
        label += f"  ({found.mean / least:.3g} x)"
    limits = set(rows["limited_by"]) - {"slo"}
    if limits:
        label += f"  limited by the {', '.join(sorted(limits))}"
    axes.text(end, place, label, va="center", fontsize=9)


def _bound(axes: Axes, frame: pd.DataFrame) -> None:
    bound = frame["bound_per_s"].dropna()
    if not len(bound):
        return
    place = float(bound.mean())
    axes.axvline(place, color="0.3", linestyle=":", linewidth=1.2)
    above = axes.get_xaxis_transform()
    words = "no policy sustains more "
    axes.text(place, 1.0, words, transform=above, fontsize=8, color="0.3", ha="right", va="bottom")
