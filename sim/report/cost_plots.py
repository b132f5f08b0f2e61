"""Plots of cost models: what one predicts, and predictions against measurements.

matplotlib is imported with this module, so it is imported when a plot is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from sim.core.protocols import CostModel
from sim.cost import curves
from sim.cost.calibration.heldout import Prediction
from sim.report.plots.figure import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, new_figure, save, tidy

SERIES = (BLUE, GREEN, ORANGE, VERMILLION)
KIND_COLORS = {"decode": BLUE, "prefill": VERMILLION, "mixed": PURPLE}
BAND = 0.1
"""Relative error drawn as a band beside the diagonal."""
MOST_POINTS = 4000
FEW_POINTS = 200


def draw_cost(model: CostModel, title: str, path: Path) -> Path:
    """One PNG: prefill, decode and hybrid times."""
    return save(cost_figure(model, title), path)


def cost_figure(model: CostModel, title: str) -> Figure:
    """Prefill time and rate against tokens, decode time against batch, mixed time against chunk."""
    figure = new_figure(11, 8.2)
    figure.suptitle(title, x=0.07, y=0.98, ha="left", fontsize=13)
    (prefill, rate), (decode, hybrid) = figure.subplots(2, 2)
    figure.subplots_adjust(left=0.07, right=0.975, bottom=0.07, top=0.9, wspace=0.17, hspace=0.3)
    _prefill(prefill, rate, model)
    _decode(decode, model)
    _hybrid(hybrid, model)
    for axes in figure.axes:
        tidy(axes)
    return figure


def _prefill(time: Axes, rate: Axes, model: CostModel) -> None:
    tokens = np.unique(np.geomspace(16, 8192, 200).astype(int))
    times = np.array([curves.prefill_ms(model, int(number)) for number in tokens])
    time.plot(tokens, times, color=BLUE)
    time.set(xlabel="prompt tokens", title="prefill of one prompt alone (ms)", yscale="log")
    rate.plot(tokens, tokens / times, color=BLUE)
    rate.set(xlabel="prompt tokens", title="its rate (tokens/ms)", ylim=(0, None))
    saturated = curves.saturation_tokens(model)
    for axes in (time, rate):
        axes.axvline(saturated, color=GREY, linewidth=0.8, linestyle="--")
        _log_tokens(axes, (16, 64, 256, 1024, 4096))
    rate.annotate(
        f"90 % of the best rate\nfrom {saturated} tokens",
        (saturated, 0.04),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
        color="0.3",
    )


def _decode(axes: Axes, model: CostModel) -> None:
    numbers = np.unique(np.geomspace(1, 256, 80).astype(int))
    for context, color in zip(curves.CONTEXTS, SERIES, strict=True):
        times = [curves.decode_ms(model, int(number), context) for number in numbers]
        axes.plot(numbers, times, color=color, label=f"{context:,}")
    axes.set(xlabel="decodes in the batch", title="decode-only iteration (ms)", ylim=(0, None))
    axes.legend(title="context of each", frameon=False, fontsize=8, title_fontsize=8)
    _log_tokens(axes, (1, 4, 16, 64, 256))


def _hybrid(axes: Axes, model: CostModel) -> None:
    chunks = np.arange(0, 2049, 16)
    for number, color in zip(curves.HYBRID_DECODES, SERIES, strict=True):
        found = [curves.hybrid_ms(model, number, int(chunk)) for chunk in chunks]
        times = [np.nan if time is None else time for time in found]
        axes.plot(chunks, times, color=color, label=str(number))
    axes.set(
        xlabel="prefill tokens beside the decodes",
        title=f"mixed iteration (ms), decodes at {curves.HYBRID_CONTEXT:,}",
        ylim=(0, None),
        xlim=(0, 2048),
    )
    axes.set_xticks([0, 512, 1024, 1536, 2048])
    axes.legend(title="decodes", frameon=False, fontsize=8, title_fontsize=8)


def draw_parity(seen: Sequence[Prediction], unseen: Sequence[Prediction], title: str, path: Path) -> Path:
    """One PNG: predictions against measurements, of the fit and of held-out rows."""
    return save(parity_figure(seen, unseen, title), path)


def parity_figure(seen: Sequence[Prediction], unseen: Sequence[Prediction], title: str) -> Figure:
    """Predicted against measured time, and the relative error against measured time, by kind of row."""
    figure = new_figure(11, 4.6)
    figure.suptitle(title, x=0.07, ha="left", fontsize=12)
    parity, errors = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.07, right=0.98, bottom=0.13, top=0.84, wspace=0.2)
    _parity(parity, unseen or seen, "rows never seen" if unseen else "all rows")
    _errors(errors, unseen or seen)
    for axes in (parity, errors):
        tidy(axes)
    return figure


def _parity(axes: Axes, predictions: Sequence[Prediction], what: str) -> None:
    for kind, chosen in _by_kind(predictions):
        measured = [prediction.row.time_us / 1000 for prediction in chosen]
        predicted = [prediction.predicted_us / 1000 for prediction in chosen]
        few = len(predictions) < FEW_POINTS
        size, alpha = (9.0, 0.8) if few else (4.0, 0.5)
        (points,) = axes.plot(measured, predicted, ".", color=KIND_COLORS[kind], label=kind, zorder=3)
        points.set(markersize=size, alpha=alpha)
    times = [prediction.row.time_us / 1000 for prediction in predictions]
    ends = np.array([min(times) * 0.8, max(times) * 1.25])
    axes.plot(ends, ends, color="0.2", linewidth=0.8)
    axes.fill_between(ends, ends * (1 - BAND), ends * (1 + BAND), color="0.88", label="within 10 %")
    axes.set(xscale="log", yscale="log", xlabel="measured (ms)", ylabel="predicted (ms)", xlim=ends)
    axes.set_title(f"predicted against measured, {what}")
    legend = axes.legend(frameon=False, fontsize=8)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)


def _errors(axes: Axes, predictions: Sequence[Prediction]) -> None:
    """Share of rows whose error is at most so much."""
    for kind, chosen in _by_kind(predictions):
        errors = np.sort(np.abs([100 * prediction.error for prediction in chosen]))
        shares = np.arange(len(errors) + 1) / len(errors)
        label = f"{kind}: median {np.median(errors):.1f} %"
        steps = np.concatenate([[0.0], errors])
        axes.plot(steps, 100 * shares, drawstyle="steps-post", color=KIND_COLORS[kind], label=label)
    axes.axhline(95, color=GREY, linewidth=0.8, linestyle="--")
    axes.set(xlabel="relative error (%)", title="share of rows with at most that error (%)", ylim=(0, 101))
    axes.set_xlim(0, max(5.0, float(np.percentile([abs(100 * p.error) for p in predictions], 98))))
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _by_kind(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
    """Predictions of each kind, the commonest first and so at the back; long lists thinned."""
    groups = {
        kind: [prediction for prediction in predictions if prediction.row.kind == kind]
        for kind in KIND_COLORS
    }
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [(kind, found[:: 1 + len(found) // MOST_POINTS]) for kind, found in ordered if found]


def _log_tokens(axes: Axes, ticks: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
