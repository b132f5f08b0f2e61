"""Decode tokens over time (Sarathi-Serve, Figure 1a): steps where generation stalls, slopes where not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sim.report.plots.figure import new_figure, run_legend, styles, tidy
from sim.report.view import RunView

ZOOM_SHARE = (0.45, 0.6)
"""Which part of the longest run the right panel shows: past the first fill, before the tail."""

Series = NDArray[np.float64]


def tokens_over_time(views: Sequence[RunView]) -> Figure:
    """Cumulative decode tokens of each run, whole and a part of it."""
    figure = new_figure(10, 4.6)
    whole, part = figure.subplots(1, 2, width_ratios=(1.25, 1))
    figure.subplots_adjust(left=0.09, right=0.98, bottom=0.13, top=0.84, wspace=0.2)
    curves = {view.name: decode_tokens(view) for view in views}
    end = max(times[-1] for times, _ in curves.values())
    window = (ZOOM_SHARE[0] * end, ZOOM_SHARE[1] * end)
    for axes in (whole, part):
        _draw(axes, views, curves)
    whole.axvspan(*window, color="0.92", zorder=0)
    whole.set(xlim=(0, end), ylim=(0, None), title="whole run")
    inside = [np.interp(window, times, tokens) for times, tokens in curves.values()]
    part.set(xlim=window, title="the part in grey")
    part.set_ylim(min(low for low, _ in inside), max(high for _, high in inside))
    whole.set_ylabel("decode tokens so far")
    run_legend(figure, views)
    return figure


def decode_tokens(view: RunView) -> tuple[Series, Series]:
    """Ends of iterations and decode tokens made by then; jumps over equal batches are drawn straight."""
    rows = view.iterations[view.iterations["num_decodes"] > 0]
    start, length = rows["start_s"].to_numpy(), rows["duration_s"].to_numpy()
    repeats = rows["repeats"].to_numpy()
    made = np.cumsum(rows["num_decodes"].to_numpy() * repeats)
    # level until the row's first token, then a rise to its last one
    firsts = start + length / repeats
    before = np.concatenate([[0], made[:-1]])
    times = np.column_stack((firsts, firsts, start + length)).ravel()
    tokens = np.column_stack((before, before + rows["num_decodes"].to_numpy(), made)).ravel()
    return np.concatenate([[0.0], times]), np.concatenate([[0.0], tokens])


def _draw(axes: Axes, views: Sequence[RunView], curves: dict[str, tuple[Series, Series]]) -> None:
    by_name = styles(views)
    for view in views:
        style = by_name[view.name]
        axes.plot(*curves[view.name], color=style.color, linestyle=style.dashes, linewidth=1.6)
    axes.set_xlabel("time since the first arrival (s)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    tidy(axes)
