"""Recorder: what a run was, written down as it happens; a RunRecord at the end."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.record import FINISHED, ITERATION_COLUMNS, REJECTED, RunRecord
from sim.core.request import RequestState
from sim.core.trace import Trace
from sim.core.units import UNSET_NS
from sim.engine.gaps import GapLog
from sim.engine.jump import Jump
from sim.engine.tokens import TokenLog
from sim.kv import BlockLedger

BLOCK_BYTES = 1 << 21
"""Iteration rows are added up, and dropped if nobody wants them, in blocks of about this size."""

_NEVER_NS = 1 << 62

_packed = Struct(f"{len(ITERATION_COLUMNS)}q").pack


class Recorder:
    """Fills columns by trace row and one row an iteration (or an exact jump)."""

    def __init__(self, trace: Trace, steady_window_ns: tuple[int, int], rows: bool) -> None:
        def column(value: int) -> array[int]:
            return array("q", [value]) * len(trace)

        self._trace = trace
        self.num_requests = len(trace)
        self._window_ns = steady_window_ns
        self._next_edge_ns = steady_window_ns[0]
        """The next end of the steady window to be passed."""
        self._arrival, self._scheduled, self._first = column(UNSET_NS), column(UNSET_NS), column(UNSET_NS)
        self._finish, self._max_tbt = column(UNSET_NS), column(UNSET_NS)
        self._preemptions = column(0)
        self._status = bytearray(len(trace))
        self._reasons: dict[int, str] = {}
        self.gaps = GapLog()
        self.num_left = 0
        """Requests finished or rejected."""
        self._keep_rows = rows
        self._rows = bytearray()
        """Packed iteration rows that are not in the totals yet."""
        self._blocks: list[NDArray[np.int64]] = []
        self._num_rows = self._num_iterations = self._busy_ns = self._emitted = 0
        self._steady_requests = self._steady_output = self._steady_prompt = 0
        self._padded_prefill = self._idle_slots = self._used_slots = 0

    @property
    def num_iterations(self) -> int:
        """Iterations so far."""
        self._add_up()
        return self._num_iterations

    @property
    def num_rows(self) -> int:
        """Rows so far: iterations, or exact jumps over several."""
        self._add_up()
        return self._num_rows

    def arrived(self, request: RequestState) -> None:
        self._arrival[request.row] = request.arrival_ns

    def rejected(self, request: RequestState, reason: str) -> None:
        self._status[request.row] = REJECTED
        self._reasons[request.row] = reason
        self.num_left += 1

    def finished(self, request: RequestState, end_ns: int) -> None:
        row = request.row
        self.progressed(request)
        if len(self._rows) >= BLOCK_BYTES:
            self._add_up()
        self._finish[row] = end_ns
        self._status[row] = FINISHED
        self.num_left += 1
        if self._window_ns[0] <= end_ns < self._window_ns[1]:
            self._steady_requests += 1
            self._steady_prompt += request.prompt_tokens

    def progressed(self, request: RequestState) -> None:
        """Write down how far `request` has come, finished or not."""
        row = request.row
        if request.first_scheduled_ns is not None:
            self._scheduled[row] = request.first_scheduled_ns
        if request.first_token_ns is not None:
            self._first[row] = request.first_token_ns
        if request._max_tbt_ns is not None:
            self._max_tbt[row] = request._max_tbt_ns
        self._preemptions[row] = request.num_preemptions

    def iterations(
        self,
        start_ns: int,
        end_ns: int,
        jump: Jump | None,
        num_decodes: int,
        chunks: Mapping[RequestState, int],
        batch: Batch,
        used_blocks: int,
        waiting: int,
    ) -> None:
        """One iteration, or those of `jump`, which `end_ns` ends; chunks are its prefill tokens."""
        if end_ns >= self._next_edge_ns:
            self._pass_edge(start_ns, end_ns, jump, num_decodes)
        _, context_tokens, _, _, _ = batch
        self._rows.extend(_packed(
            start_ns, end_ns - start_ns, num_decodes, len(chunks), sum(chunks.values()) if chunks else 0,
            context_tokens, used_blocks, waiting, 1 if jump is None else jump.iterations,
        ))  # fmt: skip

    def prefill_token(self, end_ns: int) -> None:
        """The token at `end_ns` that ends a prefill."""
        self._emitted += 1
        if self._window_ns[0] <= end_ns < self._window_ns[1]:
            self._steady_output += 1

    def _pass_edge(self, start_ns: int, end_ns: int, jump: Jump | None, num_decodes: int) -> None:
        """The steady window has opened or closed by `end_ns`: of a jump, count what lies inside."""
        if jump is not None and any(start_ns < edge <= end_ns for edge in self._window_ns):
            inside = np.searchsorted(jump.ends_ns(), self._window_ns)
            self._steady_output += num_decodes * int(inside[1] - inside[0])
        self._next_edge_ns = min((edge for edge in self._window_ns if edge > end_ns), default=_NEVER_NS)

    def _add_up(self) -> None:
        """Take the packed rows into the totals."""
        rows = np.frombuffer(self._rows, dtype=np.int64).reshape(-1, len(ITERATION_COLUMNS))
        self._rows = bytearray()
        start, duration, decodes, repeats = rows[:, 0], rows[:, 1], rows[:, 2], rows[:, -1]
        tokens = decodes * repeats
        self._num_rows += len(rows)
        self._num_iterations += int(repeats.sum())
        self._busy_ns += int(duration.sum())
        self._emitted += int(tokens.sum())
        opens, closes = self._window_ns
        # An iteration counts where it ends; a jump past an edge of the window was counted on its own.
        end = start + duration
        inside = (end >= opens) & (end < closes) & ((repeats == 1) | (start >= opens))
        self._steady_output += int(tokens[inside].sum())
        if self._keep_rows and len(rows):
            self._blocks.append(rows)

    def padding(self, padded_tokens: int, idle_slots: int, used_slots: int) -> None:
        """What a padded plan computed for nothing, and the slots that did deliver."""
        self._padded_prefill += padded_tokens
        self._idle_slots += idle_slots
        self._used_slots += used_slots

    def result(self, kv: BlockLedger, tokens: TokenLog | None, counters: dict[str, int]) -> RunRecord:
        """The run so far as a RunRecord."""
        gaps, counts = self.gaps.distinct()
        self._add_up()
        no_rows = np.empty((0, len(ITERATION_COLUMNS)), dtype=np.int64)
        return RunRecord(
            trace=self._trace,
            arrival_ns=_column(self._arrival),
            first_scheduled_ns=_column(self._scheduled),
            first_token_ns=_column(self._first),
            finish_ns=_column(self._finish),
            max_tbt_ns=_column(self._max_tbt),
            num_preemptions=_column(self._preemptions),
            status=np.frombuffer(self._status, dtype=np.int8),
            reasons=self._reasons,
            iterations=np.concatenate(self._blocks) if self._blocks else no_rows,
            tbt_ns=gaps,
            tbt_counts=counts,
            num_iterations=self._num_iterations,
            busy_ns=self._busy_ns,
            output_tokens_emitted=self._emitted,
            num_blocks=kv.num_blocks,
            block_size=kv.block_size,
            kv_peak_blocks=kv.peak_blocks,
            steady_window_ns=self._window_ns,
            steady_requests=self._steady_requests,
            steady_output_tokens=self._steady_output,
            steady_prompt_tokens=self._steady_prompt,
            padded_prefill_tokens=self._padded_prefill,
            idle_slot_iterations=self._idle_slots,
            used_slot_iterations=self._used_slots,
            prefix_query_tokens=kv.query_tokens,
            prefix_hit_tokens=kv.hit_tokens,
            counters=counters,
            token_times=None if tokens is None else tokens.times,
        )


def _column(values: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(values, dtype=np.int64)
