"""From raw columns to a Trace, and from a Trace to a part or a scaling of it.

Owns order, origin, window, thinning, limit, rate and length caps. All times are int64 ns and all
arithmetic on them is exact or rounded once, half to even.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError, TraceError
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.core.units import seconds_to_ns
from sim.trace.raw import RawTrace

Rows = NDArray[np.int64]
ROW_COLUMNS = (
    "arrival_ns",
    "prompt_tokens",
    "output_tokens",
    "request_ids",
    "priority",
    "client",
    "slo_class",
    "session",
    "think_ns",
    "prefix_hashes",
)
LONGEST_NS = 2**62
"""146 years; sums of two such times still fit int64."""
CAP_MODES = ("reject", "clip", "drop")


def build_trace(raw: RawTrace, name: str) -> Trace:
    """The Trace of all rows read: sorted (stable, with a notice), the first arrival at 0."""
    if not raw.rows:
        dropped = "; ".join(f"{count} dropped: {reason}" for reason, count in raw.dropped.items())
        raise TraceError(f"{raw.path}: the trace has no requests{f' ({dropped})' if dropped else ''}")
    columns: dict[str, Any] = {key: _joined(chunks) for key, chunks in raw.columns.items()}
    lines = columns.pop("line")
    if "request_ids" in columns and not any(columns["request_ids"]):
        del columns["request_ids"]  # the file has the column and nothing in it
    _check_distinct(raw, columns.get("request_ids", ()), lines)
    if "session" in columns:
        columns["session"] = number_sessions(columns["session"])
    finish_ns = columns.pop("finish_ns", None)
    trace = Trace(
        name=name,
        hash_block_tokens=raw.hash_block_tokens,
        notices=tuple(raw.notices),
        dropped=dict(raw.dropped),
        **columns,
    )
    if finish_ns is not None:
        trace = dataclasses.replace(trace, think_ns=think_times(trace, finish_ns))
    return origin_at_first(in_order(trace))


def _check_distinct(raw: RawTrace, ids: Sequence[str], lines: Rows) -> None:
    """TraceError for two rows of one id: results are looked up by it."""
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for name, line in zip(ids, lines.tolist(), strict=True):
        if name in first:
            raw.fail(line, f"request_id: {name!r} is that of line {first[name]} too; ids must differ")
        first[name] = line


def think_times(trace: Trace, finish_ns: Rows) -> Rows:
    """For each turn, the time from the end of the session's turn before it; 0 for the first."""
    assert trace.session is not None
    think = np.zeros(len(trace), dtype=np.int64)
    order = np.lexsort((np.arange(len(trace)), trace.arrival_ns, trace.session))
    later = trace.session[order][1:] == trace.session[order][:-1]
    gaps = trace.arrival_ns[order][1:] - finish_ns[order][:-1]
    think[order[1:]] = np.where(later, np.maximum(gaps, 0), 0)
    return think


def _joined(chunks: list[Any]) -> Any:
    if isinstance(chunks[0], np.ndarray):
        return np.concatenate(chunks)
    return [value for chunk in chunks for value in chunk]


def number_sessions(labels: Sequence[str]) -> Rows:
    """A number for each label; an empty label is a session of its own."""
    numbers: dict[Any, int] = {}
    keys = (label if label else ("alone", row) for row, label in enumerate(labels))
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(labels))


def _by_appearance(session: Rows) -> Rows:
    """The same sessions, numbered in order of their first row."""
    _, first, place = np.unique(session, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[place]


def take(trace: Trace, rows: Rows) -> Trace:
    """The trace with these rows, in this order, times as they are."""
    chosen: dict[str, Any] = {}
    for name in ROW_COLUMNS:
        column = getattr(trace, name)
        if isinstance(column, np.ndarray):
            chosen[name] = column[rows]
        elif column is not None:
            chosen[name] = [column[row] for row in rows.tolist()]
    if trace.session is not None:
        chosen["session"] = _by_appearance(chosen["session"])
    return dataclasses.replace(trace, **chosen)


def noted(trace: Trace, notice: str) -> Trace:
    """The trace with one more sentence for the user."""
    return dataclasses.replace(trace, notices=(*trace.notices, notice))


def in_order(trace: Trace) -> Trace:
    """Rows by arrival, equal ones in file order; a notice says how many came out of order."""
    arrival = trace.arrival_ns
    backwards = int((np.diff(arrival) < 0).sum())
    if not backwards:
        return trace
    rows = np.argsort(arrival, kind="stable")
    times = "once" if backwards == 1 else f"{backwards} times"
    return noted(take(trace, rows), f"rows were not in order of arrival (time went back {times}); sorted")


def origin_at_first(trace: Trace) -> Trace:
    """Times counted from the first arrival."""
    first = trace.arrival_ns[0]
    return trace if first == 0 else dataclasses.replace(trace, arrival_ns=trace.arrival_ns - first)


def in_window(trace: Trace, window_s: Sequence[float | str]) -> Trace:
    """Arrivals from start to just before end, in seconds after the first; then a new origin."""
    start, end = (seconds_to_ns(edge) for edge in window_s)
    if not 0 <= start < end:
        raise ConfigError(f"window_s: {list(window_s)} must be [start, end] with 0 <= start < end")
    low, high = np.searchsorted(trace.arrival_ns, [start, end], side="left")
    if low == high:
        last = trace.arrival_ns[-1] / 1e9
        raise TraceError(
            f"{trace.name}: no arrival in window_s {list(window_s)}; the last is at {last:.3f} s"
        )
    return origin_at_first(take(trace, np.arange(low, high)))


def limited(trace: Trace, limit: int) -> Trace:
    """The first `limit` rows."""
    if limit < 1:
        raise ConfigError(f"limit: {limit} is too small; it must be at least 1")
    return trace if limit >= len(trace) else take(trace, np.arange(limit))


def thinned(trace: Trace, fraction: float, seed: int) -> Trace:
    """Each request (each session whole) kept with probability `fraction`; a new origin."""
    if not 0 < fraction <= 1:
        raise ConfigError(f"thin: {fraction} must be above 0 and at most 1")
    rng = stream(seed, "trace.thin")
    if trace.session is None:
        kept = rng.random(len(trace)) < fraction
    else:
        kept = (rng.random(int(trace.session.max()) + 1) < fraction)[trace.session]
    if not kept.any():
        raise TraceError(f"{trace.name}: thin {fraction} leaves no request")
    trace = noted(take(trace, np.flatnonzero(kept)), f"thinned to {kept.sum()} of {len(trace)} requests")
    return origin_at_first(trace)


def scaled_rate(trace: Trace, rate_scale: float) -> Trace:
    """Arrivals `rate_scale` times as fast; think times stay."""
    if not (rate_scale > 0 and np.isfinite(rate_scale)):
        raise ConfigError(f"rate_scale: {rate_scale} must be above 0")
    if rate_scale == 1:
        return trace
    divisor = Fraction(str(rate_scale))
    if int(trace.arrival_ns[-1]) / divisor >= LONGEST_NS:
        raise ConfigError(f"rate_scale: {rate_scale} is too small; the trace would last over a century")
    return dataclasses.replace(trace, arrival_ns=_divided(trace.arrival_ns, divisor))


def _divided(times: Rows, divisor: Fraction) -> Rows:
    """times / divisor, rounded half to even, by integers only."""
    up, down = divisor.denominator, divisor.numerator
    longest = int(times[-1]) // down * up if len(times) else 0
    if max(up * down * 2, longest) >= 2**62:
        return np.array([round(time / divisor) for time in times.tolist()], dtype=np.int64)
    whole, rest = np.divmod(times, down)
    part, left = np.divmod(rest * up, down)
    part += (2 * left > down) | ((2 * left == down) & ((whole * up + part) % 2 == 1))
    result: Rows = whole * up + part
    return result


def capped(
    trace: Trace,
    mode: str = "reject",
    *,
    max_prompt_tokens: int | None = None,
    max_output_tokens: int | None = None,
    max_total_tokens: int | None = None,
) -> Trace:
    """Requests over a cap are refused with an error (reject), shortened (clip) or left out (drop).

    Clipping to max_total_tokens shortens the prompt, down to one token, then the output.
    """
    if mode not in CAP_MODES:
        raise ConfigError(f"over_cap: unknown value {mode!r}; allowed: {', '.join(CAP_MODES)}")
    for name, cap in (
        ("prompt_tokens", max_prompt_tokens),
        ("output_tokens", max_output_tokens),
        ("total_tokens", max_total_tokens),
    ):
        if cap is None:
            continue
        if cap < 1 + (name == "total_tokens"):
            raise ConfigError(f"max_{name}: {cap} is too small")
        over = _column(trace, name) > cap
        if over.any():
            trace = _CAPPERS[mode](trace, name, cap, over)
    return trace


def _column(trace: Trace, name: str) -> Rows:
    if name == "total_tokens":
        return trace.prompt_tokens + trace.output_tokens
    column: Rows = getattr(trace, name)
    return column


def _reject(trace: Trace, name: str, cap: int, over: NDArray[np.bool_]) -> Trace:
    row = int(np.argmax(over))
    raise TraceError(
        f"{trace.name}: request {trace.id_of(row)} has {_column(trace, name)[row]} {name}, over "
        f"max_{name} {cap} (and {int(over.sum()) - 1} more); over_cap: clip or drop allows it"
    )


def _clip(trace: Trace, name: str, cap: int, over: NDArray[np.bool_]) -> Trace:
    prompt, output = trace.prompt_tokens, trace.output_tokens
    if name == "total_tokens":
        output = np.minimum(output, cap - 1)
        prompt = np.minimum(prompt, cap - output)
    else:
        prompt = np.minimum(prompt, cap) if name == "prompt_tokens" else prompt
        output = np.minimum(output, cap) if name == "output_tokens" else output
    clipped = dataclasses.replace(
        trace, prompt_tokens=prompt, output_tokens=output, prefix_hashes=_cut_hashes(trace, prompt)
    )
    return noted(clipped, f"{int(over.sum())} requests clipped to max_{name} {cap}")


def _cut_hashes(trace: Trace, prompt: Rows) -> list[tuple[int, ...]] | None:
    """The hashes of the whole blocks that a shortened prompt still has."""
    if trace.prefix_hashes is None or trace.hash_block_tokens is None:
        return None if trace.prefix_hashes is None else list(trace.prefix_hashes)
    block = trace.hash_block_tokens
    rows = zip(trace.prefix_hashes, prompt.tolist(), trace.prompt_tokens.tolist(), strict=True)
    return [hashes if now == was else hashes[: now // block] for hashes, now, was in rows]


def _drop(trace: Trace, name: str, cap: int, over: NDArray[np.bool_]) -> Trace:
    if over.all():
        raise TraceError(f"{trace.name}: every request is over max_{name} {cap}")
    dropped = {**trace.dropped, f"over max_{name} {cap}": int(over.sum())}
    return origin_at_first(dataclasses.replace(take(trace, np.flatnonzero(~over)), dropped=dropped))


_CAPPERS: dict[str, Callable[[Trace, str, int, NDArray[np.bool_]], Trace]] = {
    "reject": _reject,
    "clip": _clip,
    "drop": _drop,
}
