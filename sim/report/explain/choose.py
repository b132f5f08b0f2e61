"""Explainer: which latencies of a run to explain, and each explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sim.core.errors import UserError, suggestion
from sim.core.events import Table
from sim.core.record import RunRecord
from sim.core.units import UNSET_NS
from sim.report import metrics
from sim.report.explain.causes import Accounts, Part, Tally
from sim.report.explain.lives import Life

WHAT = ("ttft", "tbt")


@dataclass(frozen=True)
class Explanation:
    """One TTFT or one gap between tokens. The ns of its parts sum to end_ns - start_ns exactly."""

    request_id: str
    what: str
    """ttft or tbt."""
    token: int
    """Number of the token that it ends with: 1 for a TTFT."""
    start_ns: int
    end_ns: int
    parts: tuple[Part, ...]
    """Largest first."""
    shared_by: int = 1
    """Requests that had a gap from and to the very same moments, this one included."""

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Tail:
    """What all TTFTs or gaps from a percentile on are made of."""

    what: str
    percent: float
    count: int
    total_ns: int
    causes: tuple[tuple[str, int], ...]
    """(cause, ns over all of them), largest first; they sum to total_ns."""


class Explainer:
    """Explains latencies of one run, whose record must hold events."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._accounts = Accounts(record)
        self._end = self._accounts.lives.events.end_ns

    def request(self, request_id: str, top: int = 3) -> list[Explanation]:
        """Its TTFT and its `top` longest gaps, as far as it got. UserError if there is no such request."""
        row = self._row(request_id)
        life = self._accounts.lives.of(row)
        if life is None or not len(life.tokens):
            reason = self._record.reasons.get(row, "it got no token before the run ended")
            raise UserError(f"request {request_id} has no latency to explain: {reason}")
        longest = _longest(np.diff(self._end[life.tokens]), top)
        return [self._ttft(life), *(self._tbt(life, place) for place in longest)]

    def worst(self, what: str, top: int = 10) -> list[Explanation]:
        """The `top` longest of the run. A gap that many requests share counts once."""
        return self._worst_ttft(top) if _checked(what) == "ttft" else self._worst_tbt(top)

    def percentile(self, what: str, percent: float) -> tuple[Explanation, Tail]:
        """The smallest TTFT or gap that is not below the percentile, and all from there on together."""
        if not 0 <= percent <= 100:
            raise UserError(f"percentile: must lie between 0 and 100, got {percent:g}")
        return self._at_ttft(percent) if _checked(what) == "ttft" else self._at_tbt(percent)

    def _row(self, request_id: str) -> int:
        row = self._rows_by_id.get(request_id)
        if row is None:
            ids = list(self._rows_by_id)
            some = ids if len(ids) <= 4 else [*ids[:3], "...", ids[-1]]
            raise UserError(f"no request {request_id!r} in this run: ids are {', '.join(some)}")
        return row

    @cached_property
    def _rows_by_id(self) -> dict[str, int]:
        trace = self._record.trace
        return {trace.id_of(row): row for row in range(len(trace))}

    def _lives(self) -> Iterator[Life]:
        for row in range(len(self._record.trace)):
            life = self._accounts.lives.of(row)
            if life is not None:
                yield life

    def _ttft(self, life: Life) -> Explanation:
        start = int(self._record.arrival_ns[life.row])
        tally = self._accounts.until_first_token(life)
        return self._explanation(life, 1, start, int(self._end[life.tokens[0]]), tally)

    def _tbt(self, life: Life, place: int, shared_by: int = 1) -> Explanation:
        """The gap between tokens number place + 1 and place + 2 of `life`."""
        earlier, later = life.tokens[place : place + 2].tolist()
        tally = self._accounts.between_tokens(life, earlier, later)
        start, end = int(self._end[earlier]), int(self._end[later])
        return self._explanation(life, place + 2, start, end, tally, shared_by)

    def _explanation(
        self, life: Life, token: int, start_ns: int, end_ns: int, tally: Tally, shared_by: int = 1
    ) -> Explanation:
        id_of = self._record.trace.id_of
        parts = [Part(cause, None if by is None else id_of(by), ns) for (cause, by), ns in tally.items()]
        parts.sort(key=lambda part: -part.ns)
        what = WHAT[0] if token == 1 else WHAT[1]
        return Explanation(id_of(life.row), what, token, start_ns, end_ns, tuple(parts), shared_by)

    def _worst_ttft(self, top: int) -> list[Explanation]:
        ttft = metrics.ttft_ns(self._record)
        order = np.argsort(-ttft, kind="stable")
        rows = [row for row in order.tolist() if ttft[row] != UNSET_NS][:top]
        return [self._ttft(life) for row in rows if (life := self._accounts.lives.of(row)) is not None]

    def _worst_tbt(self, top: int) -> list[Explanation]:
        # A gap among the longest of the run is among the longest of each request that had it.
        sharing: Counter[tuple[int, int]] = Counter()
        example: dict[tuple[int, int], tuple[int, int]] = {}
        for life in self._lives():
            tokens = life.tokens
            for place in _longest(np.diff(self._end[tokens]), top, and_equal=True):
                gap = (int(tokens[place]), int(tokens[place + 1]))
                sharing[gap] += 1
                example.setdefault(gap, (life.row, place))
        longest = sorted(example, key=lambda gap: (int(self._end[gap[0]] - self._end[gap[1]]), gap))
        explained = []
        for gap in longest[:top]:
            row, place = example[gap]
            found = self._accounts.lives.of(row)
            assert found is not None
            explained.append(self._tbt(found, place, sharing[gap]))
        return explained

    def _at_ttft(self, percent: float) -> tuple[Explanation, Tail]:
        ttft = metrics.ttft_ns(self._record)
        known = np.sort(ttft[ttft != UNSET_NS])
        rows = np.flatnonzero(ttft >= known[_rank(percent, len(known), "ttft")]).tolist()
        explained = [self._ttft(life) for row in rows if (life := self._accounts.lives.of(row)) is not None]
        return min(explained, key=lambda one: one.length_ns), _tail("ttft", percent, explained)

    def _at_tbt(self, percent: float) -> tuple[Explanation, Tail]:
        counts = self._record.tbt_counts.cumsum()
        rank = _rank(percent, int(counts[-1]) if len(counts) else 0, "tbt")
        threshold = int(self._record.tbt_ns[np.searchsorted(counts, rank, side="right")])
        # Gaps between two iterations that follow each other as decodes are the same for all who share them.
        plain: dict[tuple[int, int], Explanation] = {}
        explained: list[Explanation] = []
        for life in self._lives():
            tokens = life.tokens
            for place in np.flatnonzero(np.diff(self._end[tokens]) >= threshold).tolist():
                gap = (int(tokens[place]), int(tokens[place + 1]))
                known = plain.get(gap) if gap[1] == gap[0] + 1 else None
                if known is None:
                    known = self._tbt(life, place)
                    if all(part.cause in ("decode", "other_prefill") for part in known.parts):
                        plain[gap] = known
                explained.append(known)
        return min(explained, key=lambda one: one.length_ns), _tail("tbt", percent, explained)


def _checked(what: str) -> str:
    if what not in WHAT:
        raise UserError(f"unknown latency {what!r}: {suggestion(what, WHAT)}")
    return what


def _rank(percent: float, count: int, what: str) -> int:
    """Place, from 0 and in ascending order, of the smallest value that is not below the percentile."""
    if not count:
        raise UserError(f"{what}: the run has none to explain")
    return int(np.ceil(percent / 100 * (count - 1) - 1e-9))


def _longest(gaps: Table, top: int, and_equal: bool = False) -> list[int]:
    """Places of the `top` longest gaps, longest first; with `and_equal` also those that tie the last."""
    order: Any = np.argsort(-gaps, kind="stable")
    if and_equal and len(order) > top:
        return [int(place) for place in order if gaps[place] >= gaps[order[top - 1]]]
    return [int(place) for place in order[:top]]


def _tail(what: str, percent: float, explained: list[Explanation]) -> Tail:
    total: Counter[str] = Counter()
    for one in explained:
        for part in one.parts:
            total[part.cause] += part.ns
    length = sum(one.length_ns for one in explained)
    return Tail(what, percent, len(explained), length, tuple(total.most_common()))
