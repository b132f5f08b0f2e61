"""RunRecord: everything a finished simulation hands to the reports, in integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.core.events import Events
from sim.core.trace import Trace

UNFINISHED, FINISHED, REJECTED = 0, 1, 2
STATUS_NAMES = ("unfinished", "finished", "rejected")

ITERATION_COLUMNS = (
    "start_ns",
    "duration_ns",
    "num_decodes",
    "num_prefills",
    "prefill_tokens",
    "context_tokens",
    "kv_blocks_used",
    "waiting",
    "repeats",
)
"""One row an iteration, or one row an exact jump: `repeats` iterations of one decode batch.

duration_ns is of the whole row; context_tokens (sum over the decodes) is at its first iteration;
kv_blocks_used and waiting are after its planning, before its first iteration.
"""


@dataclass
class RunRecord:
    """Columns by trace row (int64, UNSET_NS where it never happened), iterations, and counts."""

    trace: Trace
    arrival_ns: NDArray[np.int64]
    """Actual arrivals: the trace's, or when a closed loop or a session released the request."""
    first_scheduled_ns: NDArray[np.int64]
    first_token_ns: NDArray[np.int64]
    finish_ns: NDArray[np.int64]
    max_tbt_ns: NDArray[np.int64]
    """Longest gap between tokens; UNSET_NS with fewer than two tokens."""
    num_preemptions: NDArray[np.int64]
    status: NDArray[np.int8]
    """UNFINISHED, FINISHED or REJECTED."""
    reasons: dict[int, str]
    """Why a row was rejected."""
    iterations: NDArray[np.int64]
    """Shape (rows, len(ITERATION_COLUMNS)); no rows when recording them was switched off."""
    tbt_ns: NDArray[np.int64]
    """Distinct gaps between consecutive tokens of one request, ascending, over all requests."""
    tbt_counts: NDArray[np.int64]
    """How many gaps had each value of tbt_ns."""
    num_iterations: int
    busy_ns: int
    """Time spent in iterations."""
    output_tokens_emitted: int
    num_blocks: int | None
    """KV blocks of the replica; None is unlimited."""
    block_size: int
    kv_peak_blocks: int
    steady_window_ns: tuple[int, int]
    """[start, end) of the steady window: the middle half of the arrivals by default."""
    steady_requests: int
    """Requests finished inside the steady window."""
    steady_output_tokens: int
    """Output tokens emitted inside the steady window."""
    steady_prompt_tokens: int
    """Prompt tokens of the requests finished inside the steady window."""
    extrapolated_iterations: int | None = None
    """Iterations outside the range the cost model was measured on; None if it cannot tell."""
    padded_prefill_tokens: int = 0
    """Prefill tokens computed for padding only (static batching)."""
    idle_slot_iterations: int = 0
    """Decode slots computed for finished or absent requests, summed over iterations."""
    used_slot_iterations: int = 0
    """Slots that delivered a token under a padding policy, summed over iterations."""
    prefix_query_tokens: int = 0
    """Prefill tokens looked up in the prefix cache, over all admissions, resumed ones included."""
    prefix_hit_tokens: int = 0
    """Those of them that were found there and not computed again."""
    counters: dict[str, int] = field(default_factory=dict)
    """What was counted besides: SimPy events, policy_calls, cost_calls, swapped_blocks."""
    token_times: dict[int, list[int]] | None = None
    """Every token's time by trace row, if `engine.token_times` asked for it."""
    events: Events | None = None
    """Decisions request by request, if EngineSettings.record_events asked for them."""
    wall_s: float = 0.0
    """Seconds of simulation, from the loaded trace to this record."""
    notices: list[str] = field(default_factory=list)
