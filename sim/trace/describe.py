"""describe: everything `trace info` says about a trace, as one nested mapping of plain values."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.protocols import CostModel
from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.trace.offered import offered_load
from sim.trace.reuse import prefix_reuse
from sim.trace.stats import Ints, dispersion, gap_cv, pearson, spearman, window_counts

PERCENTILES = (1, 5, 25, 50, 75, 90, 95, 99)
DISPERSION_WINDOWS_S = (1.0, 10.0, 60.0)


def describe(
    trace: Trace,
    cost: CostModel | None = None,
    *,
    max_batch_size: int = 128,
    kv_tokens: int | None = None,
) -> dict[str, Any]:
    """Counts, rate, burstiness, lengths, correlation, sessions, prefix reuse, offered load.

    A figure that does not exist (one request has no rate) is None. Ready for JSON.
    """
    load = None
    if cost is not None:
        load = offered_load(trace, cost, max_batch_size=max_batch_size, kv_tokens=kv_tokens)
    reuse = prefix_reuse(trace)
    return {
        "name": trace.name,
        "hash": trace.hash,
        "num_requests": len(trace),
        "duration_s": int(trace.arrival_ns[-1]) / NS_PER_S,
        "dropped": dict(trace.dropped),
        "notices": list(trace.notices),
        "rate": _rate(trace),
        "burstiness": _burstiness(trace.arrival_ns),
        "prompt_tokens": _lengths(trace.prompt_tokens),
        "output_tokens": _lengths(trace.output_tokens),
        "total_tokens": _lengths(trace.prompt_tokens + trace.output_tokens),
        "correlation": {
            "spearman": spearman(trace.prompt_tokens, trace.output_tokens),
            "pearson": pearson(trace.prompt_tokens, trace.output_tokens),
        },
        "sessions": _sessions(trace),
        "labels": {
            name: dict(Counter(map(str, column)))
            for name, column in (
                ("client", trace.client),
                ("slo_class", trace.slo_class),
                ("priority", trace.priority),
            )
            if column is not None
        },
        "prefix_reuse": None if reuse is None else dataclasses.asdict(reuse),
        "offered_load": None if load is None else {**dataclasses.asdict(load), "verdict": load.verdict},
    }


def _rate(trace: Trace) -> dict[str, float | None]:
    """Mean over the trace, and the busiest second and minute."""
    span = int(trace.arrival_ns[-1])
    rates: dict[str, float | None] = {"mean_per_s": (len(trace) - 1) * NS_PER_S / span if span else None}
    for name, window_s in (("peak_second_per_s", 1.0), ("peak_minute_per_s", 60.0)):
        counts = window_counts(trace.arrival_ns, window_s)
        rates[name] = float(counts.max()) / window_s if len(counts) else None
    tokens = int(trace.prompt_tokens.sum()), int(trace.output_tokens.sum())
    for name, count in zip(("prompt_tokens_per_s", "output_tokens_per_s"), tokens, strict=True):
        rates[name] = count * NS_PER_S / span if span else None
    return rates


def _burstiness(arrival_ns: Ints) -> dict[str, float | None]:
    """1 throughout for a Poisson process."""
    figures = {"gap_cv": gap_cv(arrival_ns)}
    for window_s in DISPERSION_WINDOWS_S:
        figures[f"dispersion_{window_s:g}s"] = dispersion(arrival_ns, window_s)
    return figures


def _lengths(tokens: Ints) -> dict[str, float]:
    figures = {"sum": int(tokens.sum()), "mean": float(tokens.mean()), "min": int(tokens.min())}
    values: Sequence[float] = np.percentile(tokens, PERCENTILES).tolist()
    figures |= {f"p{percent}": value for percent, value in zip(PERCENTILES, values, strict=True)}
    return {**figures, "max": int(tokens.max())}


def _sessions(trace: Trace) -> dict[str, float] | None:
    if trace.session is None:
        return None
    turns = np.unique(trace.session, return_counts=True)[1]
    think = None if trace.think_ns is None else trace.think_ns[trace.think_ns > 0]
    return {
        "count": len(turns),
        "mean_turns": float(turns.mean()),
        "max_turns": int(turns.max()),
        "mean_think_s": float(think.mean()) / NS_PER_S if think is not None and len(think) else 0.0,
    }
