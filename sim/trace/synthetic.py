"""generate: a Trace from a SyntheticSpec and a seed; the same pair always gives the same trace.

Owns putting the parts together. Each part draws from a random stream of its own, so that, say,
adding clients moves no arrival.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.trace.arrivals import arrival_times_ns
from sim.trace.lengths import correlated_uniforms, draw_lengths
from sim.trace.options import Arrivals, SyntheticSpec
from sim.trace.parse import parse_arrivals, parse_synthetic
from sim.trace.select import origin_at_first


def generate(
    spec: SyntheticSpec | Mapping[str, Any],
    seed: int = 0,
    *,
    base_dir: str | Path | None = None,
    name: str = "synthetic",
) -> Trace:
    """The synthetic trace that `spec` describes.

    A relative `table` is looked for in `base_dir` (the folder of the config), then in the current
    folder. Raises ConfigError naming the key that is wrong.
    """
    spec = parse_synthetic(spec)
    base = None if base_dir is None else Path(base_dir)
    starts = arrival_times_ns(
        spec.arrivals, count=spec.num_requests, duration_s=spec.duration_s, seed=seed, base_dir=base
    )
    if not len(starts):
        raise ConfigError(
            f"synthetic.duration_s: no arrival within {spec.duration_s} s "
            f"at rate_per_s {spec.arrivals.rate_per_s}"
        )
    trace = _single_turns(spec, starts, seed, base, name)
    return origin_at_first(trace)


def _single_turns(
    spec: SyntheticSpec, starts: NDArray[np.int64], seed: int, base: Path | None, name: str
) -> Trace:
    rng = stream(seed, "trace.lengths")
    for_prompt, for_output = correlated_uniforms(rng, len(starts), spec.correlation)
    prompt = draw_lengths(spec.prompt_tokens, for_prompt, "prompt_tokens", base)
    output = draw_lengths(spec.output_tokens, for_output, "output_tokens", base)
    if spec.max_total_tokens is not None:
        output = np.minimum(output, spec.max_total_tokens - 1)
        prompt = np.minimum(prompt, spec.max_total_tokens - output)
    return Trace(name, starts, prompt, output, **_labels(spec, len(starts), seed))


def _labels(spec: SyntheticSpec, count: int, seed: int) -> dict[str, Any]:
    """Clients, SLO classes and priorities, drawn by their shares; None where the spec has none."""
    columns: dict[str, Any] = {}
    for column, shares in (
        ("client", spec.clients), ("slo_class", spec.slo_classes), ("priority", spec.priorities)
    ):
        if shares is None:
            continue
        weights = np.array(list(shares.values()), dtype=np.float64)
        drawn = stream(seed, f"trace.{column}").choice(len(weights), count, p=weights / weights.sum())
        labels = list(shares)
        columns[column] = (
            np.array(labels, dtype=np.int64)[drawn] if column == "priority"
            else [labels[index] for index in drawn.tolist()]
        )
    return columns


def with_arrivals(trace: Trace, arrivals: Arrivals | Mapping[str, Any], seed: int) -> Trace:
    """The same requests in the same order, arriving by another process."""
    times = arrival_times_ns(parse_arrivals(arrivals), count=len(trace), seed=seed)
    return origin_at_first(dataclasses.replace(trace, arrival_ns=times))
