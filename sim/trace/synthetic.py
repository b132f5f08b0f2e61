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
from sim.core.units import seconds_to_ns
from sim.trace.arrivals import arrival_times_ns
from sim.trace.lengths import Tokens, copula_uniforms, correlated_uniforms, draw_lengths
from sim.trace.options import Arrivals, Sessions, SyntheticSpec
from sim.trace.parse import parse_arrivals, parse_synthetic
from sim.trace.select import origin_at_first, take
from sim.trace.sessions import (
    Hashing,
    Turns,
    draw_delays_ns,
    draw_prefixes,
    draw_turns,
    prefix_hashes,
)


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
    trace = (
        _conversations(spec, starts, seed, base, name)
        if _shares_context(spec)
        else _single_turns(spec, starts, seed, base, name)
    )
    return origin_at_first(trace)


def _shares_context(spec: SyntheticSpec) -> bool:
    return spec.sessions is not None or spec.shared_prefix is not None


def _lengths(spec: SyntheticSpec, count: int, seed: int, base: Path | None) -> tuple[Tokens, Tokens]:
    """New prompt tokens and output tokens of each request."""
    rng = stream(seed, "trace.lengths")
    for_prompt, for_output = (
        correlated_uniforms(rng, count, spec.correlation)
        if spec.copula is None
        else copula_uniforms(rng, count, spec.copula)
    )
    prompt = draw_lengths(spec.prompt_tokens, for_prompt, "prompt_tokens", base)
    return prompt, draw_lengths(spec.output_tokens, for_output, "output_tokens", base)


def _single_turns(
    spec: SyntheticSpec, starts: NDArray[np.int64], seed: int, base: Path | None, name: str
) -> Trace:
    prompt, output = _lengths(spec, len(starts), seed, base)
    if spec.max_total_tokens is not None:
        output = np.minimum(output, spec.max_total_tokens - 1)
        prompt = np.minimum(prompt, spec.max_total_tokens - output)
    return Trace(name, starts, prompt, output, **_labels(spec, len(starts), seed))


def _conversations(
    spec: SyntheticSpec, starts: NDArray[np.int64], seed: int, base: Path | None, name: str
) -> Trace:
    """Sessions of growing turns, or single turns behind shared prefixes, with prefix hashes.

    A turn's arrival_ns is nominal: the turn before it plus the think time, as if answers took none.
    """
    sessions = spec.sessions or Sessions()
    turns = draw_turns(sessions.turns, len(starts), spec.num_requests, seed)
    opened = int(turns.session[-1]) + 1
    prefix, prefix_tokens = draw_prefixes(spec.shared_prefix, opened, seed)
    message, output = _lengths(spec, len(turns), seed, base)
    prompt = prefix_tokens[turns.session] + turns.total_before(message + output) + message
    think = np.where(turns.number > 0, draw_delays_ns(sessions.think_s, len(turns), seed), 0)
    arrival = starts[turns.session] + turns.total_before(think) + think
    if spec.max_total_tokens is not None:
        first = turns.number == 0
        output = np.where(first, np.minimum(output, spec.max_total_tokens - 1), output)
        prompt = np.where(first, np.minimum(prompt, spec.max_total_tokens - output), prompt)
        rows = turns.up_to(prompt + output <= spec.max_total_tokens)
        turns = Turns(turns.session[rows], turns.number[rows])
        prompt, output, think, arrival = prompt[rows], output[rows], think[rows], arrival[rows]
    hashing = Hashing(turns, prompt, prefix, prefix_tokens, spec.hash_block_tokens)
    labels = _labels(spec, opened, seed)
    trace = Trace(
        name,
        arrival,
        prompt,
        output,
        session=turns.session if spec.sessions else None,
        think_ns=think if spec.sessions else None,
        prefix_hashes=prefix_hashes(hashing),
        hash_block_tokens=spec.hash_block_tokens,
        **{column: _of_session(values, turns.session) for column, values in labels.items()},
    )
    rows = np.argsort(arrival, kind="stable")[: spec.num_requests]
    if spec.duration_s is not None:
        rows = rows[arrival[rows] < seconds_to_ns(spec.duration_s)]
    return take(trace, rows)


def _of_session(values: Any, session: NDArray[np.int64]) -> Any:
    """A label of a session, for each of its turns."""
    if isinstance(values, np.ndarray):
        return values[session]
    return [values[number] for number in session.tolist()]


def _labels(spec: SyntheticSpec, count: int, seed: int) -> dict[str, Any]:
    """Clients, SLO classes and priorities, drawn by their shares; none where the spec has none."""
    columns: dict[str, Any] = {}
    for column, shares in (
        ("client", spec.clients),
        ("slo_class", spec.slo_classes),
        ("priority", spec.priorities),
    ):
        if shares is None:
            continue
        weights = np.array(list(shares.values()), dtype=np.float64)
        drawn = stream(seed, f"trace.{column}").choice(len(weights), count, p=weights / weights.sum())
        labels = list(shares)
        columns[column] = (
            np.array(labels, dtype=np.int64)[drawn]
            if column == "priority"
            else [labels[index] for index in drawn.tolist()]
        )
    return columns


def with_arrivals(trace: Trace, arrivals: Arrivals | Mapping[str, Any], seed: int) -> Trace:
    """The same requests in the same order, arriving by another process."""
    times = arrival_times_ns(parse_arrivals(arrivals), count=len(trace), seed=seed)
    return origin_at_first(dataclasses.replace(trace, arrival_ns=times))
