"""Load and throughput over the whole run, in bins of time; all runs on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from sim.report.plots.figure import new_figure, run_legend, styles, tidy
from sim.report.view import RunView

Series = NDArray[np.float64]

LOAD_BINS = 240
RATE_BINS = 80


def draw_load(views: Sequence[RunView]) -> Figure:
    """Running requests, waiting requests and KV use: the mean of each bin."""
    figure = new_figure(10, 6.6)
    panels = figure.subplots(3, 1, sharex=True)
    figure.subplots_adjust(left=0.085, right=0.98, bottom=0.08, top=0.92, hspace=0.16)
    limited = all(view.summary["kv_cache"]["num_blocks"] is not None for view in views)
    edges = bin_edges(views, LOAD_BINS)
    _lines(panels[0], views, edges, lambda view: mean_in_bins(view, running(view), edges))
    _lines(panels[1], views, edges, lambda view: mean_in_bins(view, _column(view, "waiting"), edges))
    _lines(panels[2], views, edges, lambda view: mean_in_bins(view, kv_use(view, limited), edges))
    panels[0].set_ylabel("running requests")
    panels[1].set_ylabel("waiting requests")
    panels[1].set_yscale("symlog", linthresh=10, linscale=0.8)
    panels[1].set_ylim(bottom=0)
    panels[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panels[2].set_ylabel("KV blocks used (%)" if limited else "KV blocks used")
    panels[2].set_xlabel("time since the first arrival (s)")
    run_legend(figure, views)
    return figure


def draw_throughput(views: Sequence[RunView]) -> Figure:
    """Output and prefill tokens a second, over what the arrivals asked for (grey)."""
    figure = new_figure(10, 5.2)
    panels = figure.subplots(2, 1, sharex=True)
    figure.subplots_adjust(left=0.085, right=0.98, bottom=0.1, top=0.9, hspace=0.14)
    edges = bin_edges(views, RATE_BINS)
    for axes, produced, asked in (
        (panels[0], output_tokens, "output_tokens"),
        (panels[1], prefill_tokens, "prompt_tokens"),
    ):
        axes.stairs(offered(views[0], asked, edges), edges, fill=True, color="0.87")
        _lines(axes, views, edges, partial(produced, edges=edges))
    panels[0].set_ylabel("output tokens/s")
    panels[1].set_ylabel("prefill tokens/s")
    panels[1].set_xlabel("time since the first arrival (s)")
    asked_for = Line2D([], [], color="0.87", linewidth=7, label="asked for by the arrivals")
    run_legend(figure, views, [asked_for])
    return figure


def bin_edges(views: Sequence[RunView], bins: int) -> Series:
    """Edges of equal bins from 0 to the end of the longest run."""
    ends = [float((view.iterations["start_s"] + view.iterations["duration_s"]).max()) for view in views]
    # A nanosecond more, since an end is the sum of two rounded doubles.
    return np.linspace(0, max(ends) + 1e-9, bins + 1)


def running(view: RunView) -> Series:
    """Requests in the batch at each row of iterations: in the system, but not waiting."""
    start = _column(view, "start_s")
    accepted = view.requests[view.requests["status"] != "rejected"]
    arrived = np.searchsorted(np.sort(accepted["arrival_s"].dropna()), start, side="right")
    left = np.searchsorted(np.sort(accepted["finish_s"].dropna()), start, side="right")
    return np.asarray(np.maximum(arrived - left - _column(view, "waiting"), 0), dtype=np.float64)


def kv_use(view: RunView, limited: bool) -> Series:
    """Blocks used at each row of iterations, in percent of the cache if it is `limited`."""
    used = _column(view, "kv_blocks_used")
    return used * (100 / view.summary["kv_cache"]["num_blocks"]) if limited else used


def mean_in_bins(view: RunView, values: Series, edges: Series) -> Series:
    """Mean over time of `values`, which hold during their row of iterations and are 0 between rows."""
    return _growth(view, values * _column(view, "duration_s"), edges) / np.diff(edges)


def output_tokens(view: RunView, edges: Series) -> Series:
    """Output tokens a second in each bin: every decode's, and the first ones at the end of prefills."""
    decoded = _growth(view, _column(view, "num_decodes") * _column(view, "repeats"), edges)
    firsts = np.histogram(view.requests["first_token_s"].dropna(), edges)[0]
    return np.asarray((decoded + firsts) / np.diff(edges), dtype=np.float64)


def prefill_tokens(view: RunView, edges: Series) -> Series:
    """Prompt tokens a second that were prefilled in each bin."""
    return _growth(view, _column(view, "prefill_tokens"), edges) / np.diff(edges)


def offered(view: RunView, column: str, edges: Series) -> Series:
    """Tokens a second of the requests that arrived in each bin."""
    arrived = view.requests[view.requests["arrival_s"].notna()]
    asked = np.histogram(arrived["arrival_s"], edges, weights=arrived[column])[0]
    return np.asarray(asked / np.diff(edges), dtype=np.float64)


def _growth(view: RunView, amounts: Series, edges: Series) -> Series:
    """How much of `amounts`, spread evenly over each row's time, falls in each bin."""
    start = _column(view, "start_s")
    end = start + _column(view, "duration_s")
    total = np.cumsum(amounts)
    # The running total is level between rows and climbs during each.
    times = np.column_stack((start, end)).ravel()
    totals = np.column_stack((total - amounts, total)).ravel()
    return np.diff(np.interp(edges, times, totals, left=0.0))


def _column(view: RunView, name: str) -> Series:
    return view.iterations[name].to_numpy(dtype=np.float64)


def _lines(
    axes: Axes, views: Sequence[RunView], edges: Series, values: Callable[[RunView], Series]
) -> None:
    by_name = styles(views)
    middles = (edges[:-1] + edges[1:]) / 2
    for view in views:
        style = by_name[view.name]
        # Solid lines below, so that a dashed one that runs along with them still shows.
        axes.plot(
            middles, _cut(values(view), view, edges), color=style.color, linestyle=style.dashes,
            linewidth=1.3, zorder=2 if style.dashes == "-" else 3,
        )  # fmt: skip
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(bottom=0)
    axes.margins(y=0.08)
    tidy(axes)


def _cut(values: Series, view: RunView, edges: Series) -> Series:
    """Nothing after the run's own end, where a line at 0 would look like idling."""
    end = float((view.iterations["start_s"] + view.iterations["duration_s"]).max())
    return np.where(edges[:-1] <= end, values, np.nan)
