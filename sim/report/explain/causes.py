"""Causes: whose time every nanosecond between two moments of a request was.

An iteration's time is divided so: what it waited for beside its batch (cold start, swapped KV), then
what its decodes alone would have taken, and the rest, which its prefill chunks added, in proportion to
their tokens. All of an iteration that has no decodes is its chunks'. Division is in integer ns and
loses none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from sim.core.events import NOBODY, REFUSALS, Table
from sim.core.record import RunRecord
from sim.report.explain.lives import NEVER, Life, Lives, Stay

CAUSES: Mapping[str, str] = {
    "front_end": "on its way to the scheduler (front-end delay)",
    "iteration": "arrived while an iteration was under way",
    "idle": "the policy let the replica wait",
    "slots": "waiting for a slot (max_batch_size)",
    "kv": "waiting for free KV blocks",
    "budget": "waiting for token budget that others use",
    "after_preemption": "no admission in an iteration that preempts",
    "policy": "the policy did not ask for it",
    "prefill": "its own prefill",
    "recompute": "its own prefill again, after a preemption",
    "other_prefill": "prefill of other requests in its iterations",
    "decode": "decode work of its iterations",
    "preempted": "preempted, waiting to be resumed",
    "swap": "moving KV to or from host memory",
    "cold_start": "cold start",
}
"""Every cause and how it reads."""

_OF_REFUSAL = tuple({"preempted": "after_preemption"}.get(name, name) for name in REFUSALS)
_BUDGET = REFUSALS.index("budget")

Tally = dict[tuple[str, int | None], int]
"""ns by (cause, trace row of the request that caused it; None if it was no other)."""


class Part(NamedTuple):
    """What one cause has of a latency. `by` is the id of the other request behind it, None if none.

    For other_prefill, budget and iteration `by` is whose prefill it was (None: decodes); for slots and kv
    the request in front of the line that did not get in; for preempted the one that needed the room.
    """

    cause: str
    by: str | None
    ns: int


class Accounts:
    """Divides the time of the requests of one run among causes."""

    def __init__(self, record: RunRecord) -> None:
        self.lives = Lives(record)
        events = self.lives.events
        self._start, self._end = events.start_ns(), events.end_ns
        self._busy = _running_sum(self._end - self._start)
        self._idle = _running_sum(self._start - np.concatenate(([0], self._end[:-1]))[: len(self._end)])
        self._delays = {i: (cold, swap) for i, cold, swap in events.delays.tolist()}
        self._decode_parts = dict(events.decode_parts.tolist())
        self._chunk_iterations = events.chunks[:, 0]
        self._shares: dict[int, list[tuple[str, int | None, int]]] = {}

    def until_first_token(self, life: Life) -> Tally:
        """The time from arrival to the first token, which `life` must have."""
        tally: Tally = defaultdict(int)
        tally["front_end", None] += self.lives.events.front_end_ns
        self._add_under_way(tally, life.reached_ns, life.seen_ns)
        tally["idle", None] += int(self._start[life.seen]) - life.seen_ns
        last = int(life.tokens[0]) + 1
        idle_before = int(self._idle[life.seen + 1] - self._idle[life.seen])
        self._add_iterations(tally, life, life.seen, last, without_idle_ns=idle_before)
        return _filled(tally)

    def between_tokens(self, life: Life, earlier: int, later: int) -> Tally:
        """The time from the token of iteration `earlier` to that of `later`."""
        tally: Tally = defaultdict(int)
        self._add_iterations(tally, life, earlier + 1, later + 1)
        return _filled(tally)

    def shares(self, iteration: int) -> list[tuple[str, int | None, int]]:
        """Its time as (cold_start | swap | decode | prefill, trace row of a prefill, ns)."""
        found = self._shares.get(iteration)
        if found is None:
            found = self._shares[iteration] = list(self._divided(iteration))
        return found

    def _divided(self, iteration: int) -> Iterator[tuple[str, int | None, int]]:
        left = int(self._end[iteration] - self._start[iteration])
        for kind, delay in zip(("cold_start", "swap"), self._delays.get(iteration, (0, 0)), strict=True):
            yield kind, None, delay
            left -= delay
        first, last = np.searchsorted(self._chunk_iterations, (iteration, iteration + 1))
        chunks = self.lives.events.chunks[first:last]
        decode = min(self._decode_parts.get(iteration, 0), left) if len(chunks) else left
        yield "decode", None, decode
        if len(chunks):
            tokens = chunks[:, 2].tolist()
            for row, ns in zip(chunks[:, 1].tolist(), apportioned(left - decode, tokens), strict=True):
                yield "prefill", row, ns

    def _add_under_way(self, tally: Tally, from_ns: int, to_ns: int) -> None:
        """What ran between two times, at which the scheduler could not yet decide on the request."""
        first = int(np.searchsorted(self._end, from_ns, side="right"))
        now = from_ns
        for iteration in range(first, len(self._end)):
            start, end = int(self._start[iteration]), int(self._end[iteration])
            if now >= to_ns:
                break
            if start > now:
                tally["idle", None] += min(start, to_ns) - now
                now = min(start, to_ns)
            upto = min(end, to_ns)
            if upto > now:
                shares = self.shares(iteration)
                parts = apportioned(upto - now, [ns for _, _, ns in shares])
                for (_, row, _), ns in zip(shares, parts, strict=True):
                    tally["iteration", row] += ns
                now = upto
        tally["idle", None] += max(0, to_ns - now)

    def _add_iterations(
        self, tally: Tally, life: Life, first: int, until: int, without_idle_ns: int = 0
    ) -> None:
        """Iterations first, ..., until - 1, and what lies before each of them where the replica idled."""
        tally["idle", None] -= without_idle_ns
        preempted_for: int | None = None
        for stay in life.stays:
            if first >= until:
                return
            before = min(stay.admitted, until)
            if first < before:
                self._add_waiting(tally, life, first, before, preempted_for)
                first = before
            inside = min(stay.until, until)
            for iteration in range(first, inside):
                tally["idle", None] += int(self._idle[iteration + 1] - self._idle[iteration])
                self._add_inside(tally, life, stay, iteration, preempted_for is not None)
            first = max(first, inside)
            preempted_for = stay.preempted_for
        if first < until:
            self._add_waiting(tally, life, first, until, preempted_for)

    def _add_waiting(
        self, tally: Tally, life: Life, first: int, until: int, preempted_for: int | None
    ) -> None:
        """Iterations in which the request waited, and the idle time before each."""
        idle = int(self._idle[until] - self._idle[first])
        if preempted_for is not None:
            busy = int(self._busy[until] - self._busy[first])
            tally["preempted", _other(preempted_for, life)] += idle + busy
            return
        tally["idle", None] += idle
        for begin, end, head, reason in self._refusals(first, until):
            if reason == _BUDGET:
                for iteration in range(begin, end):
                    for _, row, ns in self.shares(iteration):
                        tally["budget", row] += ns
            else:
                busy = int(self._busy[end] - self._busy[begin])
                tally[_OF_REFUSAL[reason], _other(head, life)] += busy

    def _refusals(self, first: int, until: int) -> Iterator[tuple[int, int, int, int]]:
        """(begin, end, head of the line, reason) of the stretches of iterations that make up the range."""
        lines = self.lives.events.refusals
        place = int(np.searchsorted(lines[:, 0], first, side="right")) - 1
        while first < until:
            head, reason = (NOBODY, 0) if place < 0 else (int(lines[place, 1]), int(lines[place, 2]))
            end = int(lines[place + 1, 0]) if place + 1 < len(lines) else NEVER
            end = min(end, until)
            yield first, end, head, reason
            first, place = end, place + 1

    def _add_inside(
        self, tally: Tally, life: Life, stay: Stay, iteration: int, is_again: bool
    ) -> None:
        """One iteration of a stay."""
        refused = self._refused_inside(life, stay, iteration)
        if refused is not None:
            for _, row, ns in self.shares(iteration):
                tally[refused, row if refused == "budget" else None] += ns
            return
        for kind, row, ns in self.shares(iteration):
            if kind != "prefill":
                tally[kind, None] += ns
            elif row == life.row:
                tally["recompute" if is_again else "prefill", None] += ns
            else:
                tally["other_prefill", row] += ns

    def _refused_inside(self, life: Life, stay: Stay, iteration: int) -> str | None:
        """Why the request got no work in an iteration of its stay beside others like it; None if it did,
        or if all decodes stood still for prefills."""
        if iteration < stay.decodes_from:
            if iteration in stay.chunks[:, 0]:
                return None
            lines = self.lives.events.refusals
            place = int(np.searchsorted(lines[:, 0], iteration, side="right")) - 1
            return _OF_REFUSAL[int(lines[place, 3]) if place >= 0 else 0]
        by_budget = self.lives.has_budget_excuse(life.row, iteration)
        return None if by_budget is None else "budget" if by_budget else "policy"


def apportioned(total: int, weights: list[int]) -> list[int]:
    """`total` in integer parts in proportion to `weights`, summing to it exactly."""
    whole = sum(weights)
    parts, before, weighed = [], 0, 0
    for weight in weights:
        weighed += weight
        upto = total * weighed // whole if whole else 0
        parts.append(upto - before)
        before = upto
    return parts


def _other(row: int, life: Life) -> int | None:
    return None if row in (NOBODY, life.row) else row


def _running_sum(values: Table) -> Table:
    """Element i is the sum of the first i values."""
    return np.concatenate(([0], values.cumsum()))


def _filled(tally: Tally) -> Tally:
    return {key: ns for key, ns in tally.items() if ns}
