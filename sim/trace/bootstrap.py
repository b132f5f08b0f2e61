"""Bootstrap: another trace like this one, made of its own requests drawn again in blocks.

Owns the resampling by which a trace from a file can differ from seed to seed. Blocks of consecutive
requests (whole sessions, where there are any) are drawn with replacement, each with the gap that
followed it: what neighbours share, such as bursts, stays within a block; the order of blocks, and
which of them occur at all, is chance. Source: Kuensch, "The jackknife and the bootstrap for general
stationary observations" (1989); circular blocks as in Politis and Romano (1992).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.trace.select import noted, origin_at_first, take

Rows = NDArray[np.int64]

COPY_STRIDE = 2**64
"""Added to the hashes of a repeated request's own blocks, a multiple for each repetition."""


def bootstrapped(trace: Trace, blocks: int, seed: int) -> Trace:
    """As many requests (sessions) as `trace` has, drawn from it in about `blocks` blocks.

    A request drawn twice is two requests: blocks of its prompt that it shared with none but itself
    are not shared with its copy. The same seed always gives the same trace. ConfigError if
    `blocks` is below 1.
    """
    if blocks < 1:
        raise ConfigError(f"bootstrap: {blocks} is too small; it must be at least 1")
    units = _Units(trace)
    length = -(-len(units) // blocks)
    firsts = stream(seed, "trace.bootstrap").integers(0, len(units), -(-len(units) // length))
    drawn = ((firsts[:, None] + np.arange(length)) % len(units)).ravel()[: len(units)]
    starts = np.cumsum(units.gap_ns[drawn]) - units.gap_ns[drawn]
    rows, place = units.rows_of(drawn)
    arrival = trace.arrival_ns[rows] - units.start_ns[drawn][place] + starts[place]
    copies = _repetitions(drawn)[place]
    made = dataclasses.replace(
        take(trace, rows),
        arrival_ns=arrival,
        session=None if trace.session is None else place,
        request_ids=_ids(trace.request_ids, rows, copies),
        prefix_hashes=_hashes(trace, units.of_row, rows, copies),
    )
    what = "requests" if trace.session is None else "sessions"
    made = noted(made, f"{what} drawn again from the trace in blocks of {length}")
    return origin_at_first(take(made, np.argsort(arrival, kind="stable")))


class _Units:
    """What is drawn as a whole: requests, or sessions; in order of their first arrivals."""

    def __init__(self, trace: Trace) -> None:
        if trace.session is None:
            of_row = np.arange(len(trace))
        else:
            _, first, of_row = np.unique(trace.session, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first)] = np.arange(len(first))
            of_row = rank[of_row]
        self.of_row: Rows = of_row
        """The unit of each row; rows are in order of arrival, so units are too."""
        self._rows = np.argsort(of_row, kind="stable")
        self._counts = np.bincount(of_row)
        self._ends = np.cumsum(self._counts)
        self.start_ns: Rows = trace.arrival_ns[self._rows[self._ends - self._counts]]
        gaps = np.diff(self.start_ns)
        self.gap_ns: Rows = np.append(gaps, round(gaps.mean()) if len(gaps) else 0)
        """To the next unit's start; after the last one, the mean."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def rows_of(self, units: Rows) -> tuple[Rows, Rows]:
        """The rows of `units`, one unit after another, and for each the place of its unit in `units`."""
        counts = self._counts[units]
        place = np.repeat(np.arange(len(units)), counts)
        before = np.cumsum(counts) - counts
        inside = np.arange(len(place)) - before[place]
        rows: Rows = self._rows[(self._ends - self._counts)[units][place] + inside]
        return rows, place


def _repetitions(drawn: Rows) -> Rows:
    """For each draw, how often the same was drawn before it."""
    seen: Counter[int] = Counter()
    copies = np.empty(len(drawn), dtype=np.int64)
    for place, unit in enumerate(drawn.tolist()):
        copies[place] = seen[unit]
        seen[unit] += 1
    return copies


def _ids(ids: Sequence[str] | None, rows: Rows, copies: Rows) -> list[str] | None:
    if ids is None:
        return None
    pairs = zip(rows.tolist(), copies.tolist(), strict=True)
    return [ids[row] if not copy else f"{ids[row]}#{copy + 1}" for row, copy in pairs]


def _hashes(trace: Trace, unit_of_row: Rows, rows: Rows, copies: Rows) -> list[tuple[int, ...]] | None:
    """Hashes of the rows; of a repetition, those that no other unit has become its own."""
    if trace.prefix_hashes is None:
        return None
    owners = zip(unit_of_row.tolist(), trace.prefix_hashes, strict=True)
    units = Counter(hashed for hashed, _ in {(hashed, unit) for unit, hashes in owners for hashed in hashes})
    return [
        tuple(
            hashed + copy * COPY_STRIDE if copy and units[hashed] == 1 else hashed
            for hashed in trace.prefix_hashes[row]
        )
        for row, copy in zip(rows.tolist(), copies.tolist(), strict=True)
    ]
