"""Plots of a trace, before any simulation: its rate, its gaps, its lengths, what its prompts share.

Owns the drawing only; every figure comes from the trace's columns. matplotlib is imported with this
module, so it is imported when a plot is asked for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator
from numpy.typing import NDArray

from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.report.plots.figure import BLUE, GREY, ORANGE, VERMILLION, new_figure, save, tidy

Ints = NDArray[np.int64]

RATE_BINS = 120
LENGTH_BINS = 60
SCATTER_POINTS = 20_000
REUSE_BINS = 60


def draw_trace(trace: Trace, path: Path) -> Path:
    """One PNG of four panels, and a fifth with prefix reuse if the trace has prefix hashes."""
    return save(trace_figure(trace), path)


def trace_figure(trace: Trace) -> Figure:
    """Rate over time, gaps beside Poisson's, lengths, prompt against output, prefix reuse."""
    hashed = trace.prefix_hashes is not None
    figure = new_figure(11, 9.6 if hashed else 7.2)
    grid = figure.add_gridspec(3 if hashed else 2, 2, hspace=0.36, wspace=0.2)
    figure.subplots_adjust(left=0.075, right=0.975, bottom=0.06 if hashed else 0.08, top=0.9)
    figure.suptitle(f"{trace.name}: {len(trace):,} requests", x=0.075, y=0.98, ha="left", fontsize=13)
    _rate(figure.add_subplot(grid[0, 0]), trace.arrival_ns)
    _gaps(figure.add_subplot(grid[0, 1]), trace.arrival_ns)
    _lengths(figure.add_subplot(grid[1, 0]), trace)
    _joint(figure.add_subplot(grid[1, 1]), trace)
    if hashed:
        _reuse(figure.add_subplot(grid[2, :]), trace)
    for axes in figure.axes:
        tidy(axes)
    return figure


def _rate(axes: Axes, arrival_ns: Ints) -> None:
    seconds = arrival_ns / NS_PER_S
    span = max(float(seconds[-1]), 1e-9)
    counts, edges = np.histogram(seconds, bins=min(RATE_BINS, max(len(seconds) // 10, 1)), range=(0, span))
    axes.stairs(counts / np.diff(edges), edges, fill=True, color=BLUE, alpha=0.35)
    mean = (len(seconds) - 1) / span
    _level(axes, mean, f"mean {mean:.3g}/s")
    axes.set(xlabel="time since the first arrival (s)", title="arrival rate (requests/s)", ylim=(0, None))
    axes.set_xlim(0, span)


def _level(axes: Axes, value: float, label: str) -> None:
    """A horizontal line with its name on it, readable over bars."""
    axes.axhline(value, color=VERMILLION, linewidth=1.2)
    axes.annotate(
        label,
        (0.99, value),
        xycoords=("axes fraction", "data"),
        color=VERMILLION,
        ha="right",
        va="center",
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def _gaps(axes: Axes, arrival_ns: Ints) -> None:
    """Share of gaps longer than x; a Poisson process of the same mean is the reference."""
    gaps = np.sort(np.diff(arrival_ns)) / NS_PER_S
    axes.set(xlabel="gap between arrivals (s)", title="share of gaps longer than that")
    if not len(gaps) or not gaps[-1]:
        axes.text(0.5, 0.5, "all requests arrive at once", ha="center", transform=axes.transAxes)
        return
    gaps = np.concatenate([[0.0], gaps])
    share = 1 - np.arange(len(gaps)) / len(gaps)
    low, high = float(gaps.mean()) / 100, max(float(gaps[-1]), 5 * float(gaps.mean())) * 1.1
    reference = np.geomspace(low, high, 200)
    axes.plot(reference, np.exp(-reference / gaps.mean()), color=GREY, linestyle=(0, (4, 2)), label="Poisson")
    axes.step(gaps, share, where="post", color=BLUE, label=f"trace, CV {gaps.std() / gaps.mean():.2f}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlim=(low, high), ylim=(0.5 / len(gaps), 1.5))
    axes.legend(frameon=False, loc="lower left")


def _lengths(axes: Axes, trace: Trace) -> None:
    high = max(int(trace.prompt_tokens.max()), int(trace.output_tokens.max()))
    edges = np.unique(np.rint(np.geomspace(1, high + 1, LENGTH_BINS + 1)))
    for tokens, color, name in (
        (trace.prompt_tokens, BLUE, "prompt"),
        (trace.output_tokens, ORANGE, "output"),
    ):
        share = np.histogram(tokens, edges)[0] / len(tokens)
        label = f"{name}, median {np.median(tokens):,.0f}, p99 {np.percentile(tokens, 99):,.0f}"
        axes.stairs(100 * share, edges, color=color, fill=True, alpha=0.25)
        axes.stairs(100 * share, edges, color=color, linewidth=1.2, label=label)
    axes.set_xscale("log")
    axes.set(xlabel="tokens", title="requests of each length (%)", ylim=(0, axes.get_ylim()[1] * 1.25))
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    _plain_ticks(axes)


def _joint(axes: Axes, trace: Trace) -> None:
    step = -(-len(trace) // SCATTER_POINTS)
    prompts, outputs = trace.prompt_tokens[::step], trace.output_tokens[::step]
    alpha = float(np.clip(1500 / len(prompts), 0.05, 0.5))
    axes.scatter(prompts, outputs, s=5, color=BLUE, alpha=alpha, linewidths=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="prompt tokens", title="output tokens of each request")
    _plain_ticks(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))


def _plain_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(10, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"


def _reuse(axes: Axes, trace: Trace) -> None:
    """Share of prompt blocks that continue a prefix seen before, over the course of the trace."""
    seen: set[int] = set()
    blocks, hits = np.zeros(len(trace)), np.zeros(len(trace))
    for row, hashes in enumerate(trace.prefix_hashes or ()):
        blocks[row] = len(hashes)
        hits[row] = next((place for place, block in enumerate(hashes) if block not in seen), len(hashes))
        seen.update(hashes)
    seconds = trace.arrival_ns / NS_PER_S
    edges = np.linspace(0, max(float(seconds[-1]), 1e-9), REUSE_BINS + 1)
    asked = np.histogram(seconds, edges, weights=blocks)[0]
    found = np.histogram(seconds, edges, weights=hits)[0]
    share = np.divide(100 * found, asked, out=np.full(REUSE_BINS, np.nan), where=asked > 0)
    axes.stairs(np.nan_to_num(share), edges, fill=True, color=BLUE, alpha=0.35)
    total = 100 * hits.sum() / max(blocks.sum(), 1)
    _level(axes, total, f"overall {total:.0f} %")
    axes.set(
        xlabel="time since the first arrival (s)",
        ylim=(0, 100),
        xlim=(0, edges[-1]),
        title="prompt blocks that an endless prefix cache would already hold (%)",
    )
