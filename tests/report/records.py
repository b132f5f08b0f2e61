"""RunRecords made by hand: from the tokens' times of each request, without any simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.record import FINISHED, REJECTED, UNFINISHED, RunRecord
from sim.core.trace import Trace
from sim.core.units import NS_PER_S, UNSET_NS


@dataclass
class Served:
    """A request and what became of it; times in seconds, `tokens` when each output token appeared."""

    arrival: float = 0.0
    tokens: Sequence[float] = ()
    scheduled: float | None = None
    prompt: int = 10
    output: int | None = None
    rejected: str | None = None
    slo_class: str | None = None
    preemptions: int = 0


def ns(seconds: float | None) -> int:
    return UNSET_NS if seconds is None else round(seconds * NS_PER_S)


def record_of(*served: Served, **changes: Any) -> RunRecord:
    """The record of these requests; `changes` are fields of RunRecord that are set as given."""
    outputs = [s.output or max(len(s.tokens), 1) for s in served]
    trace = Trace(
        name="by-hand",
        arrival_ns=np.array([ns(s.arrival) for s in served], dtype=np.int64),
        prompt_tokens=np.array([s.prompt for s in served], dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        slo_class=[s.slo_class for s in served],
    )
    gaps_by_row = [np.diff([ns(t) for t in s.tokens]) for s in served]
    gaps, counts = np.unique(np.concatenate([*gaps_by_row, np.empty(0)]), return_counts=True)
    fields: dict[str, Any] = {
        "trace": trace,
        "arrival_ns": trace.arrival_ns.copy(),
        "first_scheduled_ns": _column(_scheduled(s) for s in served),
        "first_token_ns": _column(s.tokens[0] if s.tokens else None for s in served),
        "finish_ns": _column(
            s.tokens[-1] if len(s.tokens) == n else None for s, n in zip(served, outputs, strict=True)
        ),
        "max_tbt_ns": np.array([g.max() if len(g) else UNSET_NS for g in gaps_by_row], dtype=np.int64),
        "num_preemptions": np.array([s.preemptions for s in served], dtype=np.int64),
        "status": np.array([_status(s, n) for s, n in zip(served, outputs, strict=True)], dtype=np.int8),
        "reasons": {row: s.rejected for row, s in enumerate(served) if s.rejected},
        "iterations": np.empty((0, 9), dtype=np.int64),
        "tbt_ns": gaps.astype(np.int64),
        "tbt_counts": counts.astype(np.int64),
        "num_iterations": 0,
        "busy_ns": 0,
        "output_tokens_emitted": sum(len(s.tokens) for s in served),
        "num_blocks": None,
        "block_size": 16,
        "kv_peak_blocks": 0,
        "steady_window_ns": (0, 0),
        "steady_requests": 0,
        "steady_output_tokens": 0,
        "steady_prompt_tokens": 0,
    }
    return RunRecord(**(fields | changes))


def _scheduled(s: Served) -> float | None:
    return s.scheduled if s.scheduled is not None or not s.tokens else s.arrival


def _status(s: Served, output: int) -> int:
    if s.rejected:
        return REJECTED
    return FINISHED if len(s.tokens) == output else UNFINISHED


def _column(seconds: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([ns(value) for value in seconds], dtype=np.int64)
