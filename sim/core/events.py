"""Events: what a run decided about whom and when, compact enough to keep and enough to explain every gap.

Types only: sim/engine/events.py writes them down, sim/report/explain reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]

NOBODY = -1
"""Stands for "no request" in a column of trace rows."""

REFUSALS = ("policy", "slots", "budget", "kv", "preempted")
"""Why a request got no work in an iteration; `policy` is that the policy did not ask for it."""


@dataclass(frozen=True)
class Events:
    """Columns of int64. Iterations are numbered from 0, jumps taken apart; rows are trace rows.

    Equal in fast and reference mode. Each table is in the order in which things happened.
    """

    end_ns: Table
    """End of every iteration."""
    num_decodes: Table
    """Decodes in every iteration."""
    starts: Table
    """(iteration, start_ns) of those that did not begin when the one before ended."""
    delays: Table
    """(iteration, cold_start_ns, swap_ns) of those that waited for more than their batch."""
    decode_parts: Table
    """(iteration, ns) of those with decodes and chunks: how long the decodes alone would have taken."""
    chunks: Table
    """(iteration, row, tokens, cached): prefill work."""
    passed_over: Table
    """(iteration, row, 1 if for lack of budget): decodes that got no token beside others that did."""
    seen: Table
    """(iteration, row, time_ns): the first decision that knew of a request, whether or not refused."""
    admissions: Table
    """(iteration, row, cached_tokens, 1 if it resumed with swapped KV)."""
    preemptions: Table
    """(iteration, row, for_row, time_ns): who made room for whom; for_row NOBODY: the policy said so."""
    refusals: Table
    """(iteration, waiting_row, waiting_reason, running_reason), a line where it changes: the first
    waiting request that was refused and why, and why running prefills got no chunk, as places in
    REFUSALS. It holds until the next line."""
    front_end_ns: int = 0
    """From every arrival to its reaching the scheduler."""

    def start_ns(self) -> Table:
        """Start of every iteration."""
        start = np.empty_like(self.end_ns)
        if len(start):
            start[0], start[1:] = 0, self.end_ns[:-1]
            start[self.starts[:, 0]] = self.starts[:, 1]
        return start
