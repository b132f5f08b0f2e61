"""Lives: what each iteration did for a request, worked out from the events of a run.

Owns who was waiting, prefilling, decoding and preempted when, and when tokens appeared (exactly as the
engine emitted them: tests/explain/test_lives.py). Whose time it was is in causes.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.events import Events, Table
from sim.core.record import RunRecord

NEVER = 1 << 62
"""An iteration later than any."""


@dataclass(frozen=True)
class Stay:
    """One time on the replica, from an admission to the finish or to a preemption."""

    admitted: int
    """The iteration that admitted it."""
    until: int
    """The first iteration it has no part in any more; NEVER if the run was interrupted before."""
    left_ns: int | None
    """When its last token appeared or the preemption was decided; None if the run ended before."""
    chunks: Table
    """Its prefill: lines of Events.chunks."""
    decodes_from: int
    """The first iteration in which it decodes or could; NEVER if the prefill was not done."""
    tokens: Table
    """Iterations at whose end it got a token."""
    preempted_for: int | None = None
    """Trace row for which it was preempted, NOBODY if the policy said so; None if it finished."""


@dataclass(frozen=True)
class Life:
    """One request in a run."""

    row: int
    reached_ns: int
    """When it reached the scheduler: its arrival and the front-end delay."""
    seen_ns: int
    """The first decision that knew of it."""
    seen: int
    """The iteration which that decision planned."""
    stays: tuple[Stay, ...]

    @property
    def tokens(self) -> Table:
        """The iteration at whose end each of its tokens appeared."""
        found = [stay.tokens for stay in self.stays]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


class Lives:
    """The life of any request of `record`, which must hold events."""

    def __init__(self, record: RunRecord) -> None:
        if record.events is None:
            raise ValueError("the run recorded no events: simulate with EngineSettings.record_events")
        self._record = record
        self.events: Events = record.events
        self._decoding = np.flatnonzero(self.events.num_decodes)
        events = self.events
        self._tables = {
            name: _ByRow(getattr(events, name))
            for name in ("chunks", "passed_over", "seen", "admissions", "preemptions")
        }

    def of(self, row: int) -> Life | None:
        """The life of trace row `row`; None if it never arrived or was rejected."""
        seen = self._tables["seen"].of(row)
        if not len(seen) or row in self._record.reasons:
            return None
        reached_ns = int(self._record.arrival_ns[row]) + self.events.front_end_ns
        return Life(row, reached_ns, int(seen[0, 2]), int(seen[0, 0]), tuple(self._stays(row)))

    def _stays(self, row: int) -> list[Stay]:
        trace = self._record.trace
        prompt, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
        ends = self._tables["preemptions"].of(row).tolist()
        stays: list[Stay] = []
        got = 0
        admissions = self._tables["admissions"].of(row).tolist()
        for place, (admitted, _, cached, is_resumed) in enumerate(admissions):
            ended = ends[place] if place < len(ends) else None
            prefill = None if is_resumed else prompt + got - cached
            stay = self._stay(row, admitted, ended, prefill, output - got)
            got += len(stay.tokens)
            stays.append(stay)
        return stays

    def _stay(
        self, row: int, admitted: int, ended: list[int] | None, prefill: int | None, missing: int
    ) -> Stay:
        """`prefill` tokens must be computed, None if it resumes decoding; `missing` tokens are to come."""
        until = NEVER if ended is None else ended[0]
        chunks = _between(self._tables["chunks"].of(row), admitted, until)
        tokens = np.empty(0, dtype=np.int64)
        decodes_from = admitted if prefill is None else NEVER
        if prefill is not None:
            done = np.flatnonzero(chunks[:, 2].cumsum() == prefill)
            if len(done):
                tokens = chunks[done[:1], 0]
                decodes_from = int(tokens[0]) + 1
        decoded = self._decodes(row, decodes_from, until, missing - len(tokens))
        tokens = np.concatenate((tokens, decoded))
        if ended is not None:
            return Stay(admitted, until, ended[3], chunks, decodes_from, tokens, preempted_for=ended[2])
        if len(tokens) < missing:
            return Stay(admitted, until, None, chunks, decodes_from, tokens)
        last = int(tokens[-1])
        return Stay(admitted, last + 1, int(self.events.end_ns[last]), chunks, decodes_from, tokens)

    def _decodes(self, row: int, first: int, until: int, most: int) -> Table:
        """The first `most` iterations from `first` on in which the decoding `row` got a token."""
        begin, end = np.searchsorted(self._decoding, (first, until))
        passed = _between(self._tables["passed_over"].of(row), first, until)[:, 0]
        found = self._decoding[begin : min(end, begin + most + len(passed))]
        return found[~np.isin(found, passed)][:most] if len(passed) else found

    def has_budget_excuse(self, row: int, iteration: int) -> bool | None:
        """Whether the decode `row` was passed over there for lack of budget; None if it was not."""
        passed = self._tables["passed_over"].of(row)
        there = passed[passed[:, 0] == iteration]
        return bool(there[0, 2]) if len(there) else None


class _ByRow:
    """Lines of a table whose second column is a trace row, by that row, in their order."""

    def __init__(self, table: Table) -> None:
        order = np.argsort(table[:, 1], kind="stable")
        self._lines = table[order]
        self._rows = self._lines[:, 1].copy()

    def of(self, row: int) -> Table:
        first, last = np.searchsorted(self._rows, (row, row + 1))
        return self._lines[first:last]


def _between(lines: Table, first: int, until: int) -> Table:
    """The lines of iterations first, ..., until - 1; lines are in order of iteration."""
    begin, end = np.searchsorted(lines[:, 0], (first, until))
    return lines[begin:end]
