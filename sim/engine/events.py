"""Writing down a run's Events, as it happens: a Step and a Recorder that also take notes.

Used in place of the plain ones where settings.record_events asks for it, so that a run without
events pays nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.core.batch import Batch
from sim.core.events import NOBODY, REFUSALS, Events, Table
from sim.core.protocols import CostModel
from sim.core.record import RunRecord
from sim.core.request import RequestState
from sim.core.trace import Trace
from sim.engine.clock import Clock
from sim.engine.jump import Jump
from sim.engine.recorder import Recorder
from sim.engine.step import Step

_REASON = {name: place for place, name in enumerate(REFUSALS)}
_NOT_ASKED, _BUDGET = _REASON["policy"], _REASON["budget"]

_WIDTHS = {
    "starts": 2, "delays": 3, "decode_parts": 2, "chunks": 4, "passed_over": 3, "seen": 3,
    "admissions": 4, "preemptions": 4, "refusals": 4,
}  # fmt: skip


class EventRecorder(Recorder):
    """A Recorder whose RunRecord has `events`. The step it watches must be an EventStep."""

    step: EventStep

    def __init__(
        self,
        trace: Trace,
        steady_window_ns: tuple[int, int],
        rows: bool,
        clock: Clock,
        cost: CostModel,
        front_end_ns: int,
    ) -> None:
        super().__init__(trace, steady_window_ns, rows)
        self._clock = clock
        self._cost = cost
        self._front_end_ns = front_end_ns
        self._ends, self._num_decodes = array("q"), array("q")
        self._tables = {name: array("q") for name in _WIDTHS}
        self._refused = (NOBODY, _NOT_ASKED, _NOT_ASKED)

    def arrived(self, request: RequestState) -> None:
        super().arrived(request)
        self._note("seen", len(self._ends), request.row, self._clock.now)

    def admitted(self, request: RequestState, is_resumed: bool) -> None:
        cached = 0 if is_resumed else request.prefilled_tokens
        self._note("admissions", len(self._ends), request.row, cached, is_resumed)

    def preempted(self, request: RequestState, by: RequestState | None) -> None:
        for_row = NOBODY if by is None else by.row
        self._note("preemptions", len(self._ends), request.row, for_row, self._clock.now)

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
        number = len(self._ends)
        if start_ns != (self._ends[-1] if number else 0):
            self._note("starts", number, start_ns)
        if jump is None:
            self._note_delays(number, end_ns - start_ns, batch)
        for request, tokens in chunks.items():
            self._note("chunks", number, request.row, tokens, request.prefilled_tokens)
        if chunks and batch.num_decodes:
            alone = self._cost.iteration_ns(batch._replace(chunks=()))
            self._note("decode_parts", number, alone)
        for request in self.step.passed_over():
            self._note("passed_over", number, request.row, self.step.has_used_its_budget)
        if self.step.iterations and (refused := self.step.refused()) != self._refused:
            self._refused = refused
            self._note("refusals", number, *refused)
        ends_ns = [end_ns] if jump is None else jump.ends_ns()
        self._ends.extend(ends_ns)
        self._num_decodes.extend([num_decodes] * len(ends_ns))
        super().iterations(start_ns, end_ns, jump, num_decodes, chunks, batch, used_blocks, waiting)

    def _note_delays(self, number: int, duration_ns: int, batch: Batch) -> None:
        extra_ns = duration_ns - self._cost.iteration_ns(batch)
        if extra_ns:
            cold_ns = 0 if number else int(getattr(self._cost, "cold_start_ns", 0))
            self._note("delays", number, cold_ns, extra_ns - cold_ns)

    def _note(self, table: str, *values: int) -> None:
        self._tables[table].extend(values)

    def result(self, *args: Any, **kwargs: Any) -> RunRecord:
        record = super().result(*args, **kwargs)
        tables = {name: _rows(values, _WIDTHS[name]) for name, values in self._tables.items()}
        ends, num_decodes = _rows(self._ends), _rows(self._num_decodes)
        record.events = Events(ends, num_decodes, **tables, front_end_ns=self._front_end_ns)
        return record


class EventStep(Step):
    """A Step that tells an EventRecorder who was admitted, refused and preempted, and for whom."""

    def __init__(self, recorder: EventRecorder, *args: Any) -> None:
        self._recorder = recorder
        recorder.step = self
        super().__init__(*args)

    def begin(self, now_ns: int) -> None:
        super().begin(now_ns)
        self._asked: RequestState | None = None
        self._making_room_for: RequestState | None = None
        self._refused_waiting: tuple[int, int] | None = None
        self._refused_running: int | None = None

    @property
    def has_used_its_budget(self) -> bool:
        """Whether there is a token budget and nothing is left of it."""
        return self.token_budget is not None and self.budget_left <= 0

    def refused(self) -> tuple[int, int, int]:
        """Of the waiting requests the first refused and why; why running prefills got nothing.

        A budget used up is the reason also where the policy saw that for itself and did not ask.
        """
        unasked = _BUDGET if self.has_used_its_budget else _NOT_ASKED
        waiting = self._refused_waiting or (NOBODY, unasked)
        return (*waiting, unasked if self._refused_running is None else self._refused_running)

    def passed_over(self) -> list[RequestState]:
        """Decodes without a token in this iteration, if others get one."""
        if self.all_decodes or not self.some_decodes:
            return []
        return [request for request in self._state.decodes.in_admission_order()
                if request not in self.some_decodes]  # fmt: skip

    def schedule(self, request: RequestState, tokens: int | None = None) -> bool:
        self._asked = request
        return super().schedule(request, tokens)

    def preempt(self, request: RequestState) -> None:
        is_leaving = request in self._state.leaving
        super().preempt(request)
        if not is_leaving:
            self._recorder.preempted(request, self._making_room_for)

    def _admit(self, request: RequestState, tokens: int | None) -> bool:
        admitted = super()._admit(request, tokens)
        if admitted:
            self._recorder.admitted(request, is_resumed=request not in self.chunks)
        return admitted

    def _make_room(self, request: RequestState, blocks: int) -> bool:
        self._making_room_for = request
        made = super()._make_room(request, blocks)
        self._making_room_for = None
        return made

    def _refuse(self, reason: str) -> bool:
        asked = self._asked
        if asked is not None and asked.admission is None:
            self._refused_waiting = self._refused_waiting or (asked.row, _REASON[reason])
        elif asked is not None and self._refused_running is None:
            self._refused_running = _REASON[reason]
        return super()._refuse(reason)


def _rows(values: array[int], width: int = 0) -> Table:
    """The values as a table of `width` columns; a plain column without it."""
    column = np.frombuffer(values, dtype=np.int64) if values else np.empty(0, np.int64)
    return column.reshape(-1, width) if width else column
