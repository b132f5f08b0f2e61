"""Recorder: what a run was, written down as it happens; a RunRecord at the end."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np

from sim.core.batch import Batch
from sim.core.record import FINISHED, ITERATION_COLUMNS, REJECTED, RunRecord
from sim.core.request import RequestState
from sim.core.trace import Trace
from sim.core.units import UNSET_NS
from sim.engine.gaps import GapLog
from sim.engine.jump import Ends
from sim.engine.tokens import TokenLog
from sim.kv import BlockLedger


class Recorder:
    """Fills columns by trace row and one row an iteration (or an exact jump)."""

    def __init__(self, trace: Trace, steady_window_ns: tuple[int, int], rows: bool) -> None:
        def unset() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.full(len(trace), UNSET_NS, dtype=np.int64)

        self._trace = trace
        self.num_requests = len(trace)
        self._record_rows = rows
        self._rows = array("q")
        self._window_ns = steady_window_ns
        self._arrival, self._scheduled, self._first = unset(), unset(), unset()
        self._finish, self._max_tbt = unset(), unset()
        self._preemptions = np.zeros(len(trace), dtype=np.int64)
        self._status = np.zeros(len(trace), dtype=np.int8)
        self._reasons: dict[int, str] = {}
        self.gaps = GapLog()
        self.num_left = 0
        """Requests finished or rejected."""
        self.num_iterations = 0
        self.busy_ns = 0
        self.emitted = 0
        self._steady_requests = self._steady_output = self._steady_prompt = 0
        self._padded_prefill = self._idle_slots = self._used_slots = 0

    def arrived(self, request: RequestState) -> None:
        self._arrival[request.row] = request.arrival_ns

    def rejected(self, request: RequestState, reason: str) -> None:
        self._status[request.row] = REJECTED
        self._reasons[request.row] = reason
        self.num_left += 1

    def finished(self, request: RequestState, end_ns: int) -> None:
        row = request.row
        self.progressed(request)
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
        ends_ns: Ends,
        num_decodes: int,
        chunks: Mapping[RequestState, int],
        batch: Batch,
        used_blocks: int,
        waiting: int,
    ) -> None:
        """One iteration, or a jump over len(ends_ns) of them; chunks are its prefill tokens."""
        repeats = len(ends_ns)
        end_ns = int(ends_ns[-1])
        self.num_iterations += repeats
        self.busy_ns += end_ns - start_ns
        if num_decodes:
            self.emitted += num_decodes * repeats
            self._steady_output += num_decodes * self._inside_window(start_ns, ends_ns, end_ns)
        if self._record_rows:
            self._rows.extend((
                start_ns, end_ns - start_ns, num_decodes,
                len(chunks), sum(chunks.values()) if chunks else 0,
                batch.decode_context_sum, used_blocks, waiting, repeats,
            ))  # fmt: skip

    def prefill_token(self, end_ns: int) -> None:
        """The token at `end_ns` that ends a prefill."""
        self.emitted += 1
        if self._window_ns[0] <= end_ns < self._window_ns[1]:
            self._steady_output += 1

    def _inside_window(self, start_ns: int, ends_ns: Ends, end_ns: int) -> int:
        """How many of `ends_ns` lie in the steady window."""
        opens, closes = self._window_ns
        if start_ns >= closes or end_ns < opens:
            return 0
        if (start_ns >= opens and end_ns < closes) or isinstance(ends_ns, tuple):
            return len(ends_ns) if opens <= end_ns < closes else 0
        inside = ends_ns.searchsorted((opens, closes))
        return int(inside[1] - inside[0])

    def padding(self, padded_tokens: int, idle_slots: int, used_slots: int) -> None:
        """What a padded plan computed for nothing, and the slots that did deliver."""
        self._padded_prefill += padded_tokens
        self._idle_slots += idle_slots
        self._used_slots += used_slots

    def result(self, kv: BlockLedger, tokens: TokenLog | None, counters: dict[str, int]) -> RunRecord:
        """The run so far as a RunRecord."""
        gaps, counts = self.gaps.distinct()
        rows = np.frombuffer(self._rows, dtype=np.int64) if self._rows else np.empty(0, np.int64)
        return RunRecord(
            trace=self._trace,
            arrival_ns=self._arrival,
            first_scheduled_ns=self._scheduled,
            first_token_ns=self._first,
            finish_ns=self._finish,
            max_tbt_ns=self._max_tbt,
            num_preemptions=self._preemptions,
            status=self._status,
            reasons=self._reasons,
            iterations=rows.reshape(-1, len(ITERATION_COLUMNS)),
            tbt_ns=gaps,
            tbt_counts=counts,
            num_iterations=self.num_iterations,
            busy_ns=self.busy_ns,
            output_tokens_emitted=self.emitted,
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
