"""EpochDecodes equals PlainDecodes after any sequence of calls."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.request import Request, RequestState
from sim.engine.decodes import Decodes, PlainDecodes
from sim.engine.epochs import EpochDecodes
from sim.engine.gaps import GapLog
from sim.engine.jump import Jump, fitting_iterations
from sim.engine.peaks import RecentPeaks


class Pool:
    """A pool under test with its own states, driven by (verb, number) pairs."""

    def __init__(self, kind: type, block_size: int) -> None:
        self.gaps = GapLog()
        self.pool: Decodes = kind(block_size, self.gaps, None, True)
        self.states: list[RequestState] = []
        self.left: list[RequestState] = []
        self.now = 0
        self.log: list[object] = []

    def add(self, number: int) -> None:
        state = RequestState(Request(len(self.states), "r", 0, 1 + number % 7, 2 + number % 11))
        state.admission = len(self.states)
        state._generated, state._last_token_ns = 1, self.now
        self.states.append(state)
        self.pool.add(state)

    def drop(self, states: list[RequestState]) -> None:
        for state in states:
            self.pool.remove(state)
            self.left.append(state)

    def some(self, number: int) -> list[RequestState]:
        members = self.pool.in_admission_order()
        return [state for place, state in enumerate(members) if (number >> place) & 1]

    def act(self, verb: str, number: int) -> None:
        if verb == "add" or not len(self.pool.members):
            self.add(number)
        elif verb == "wait":
            self.now += number
        elif verb == "remove":
            self.drop(self.some(1 << (number % len(self.pool.members))))
        elif verb == "all":
            runs = 1 + number % self.pool.iterations_to_completion()
            first, later = self.now + number + 3, np.arange(1, runs) + number
            self.now = first + int(later.sum())
            jump = Jump(runs, first, later, int(later.max()), self.now, 1) if runs > 1 else None
            self.drop(self.pool.advance_all(self.now, jump))
        elif verb == "some":
            self.now += 1 + number
            self.drop(self.pool.advance_some(self.some(number), self.now))
        self.observe()

    def observe(self) -> None:
        members = self.pool.in_admission_order()
        self.log.append([(s.generated_tokens, s.last_token_ns, s.row) for s in members])
        if members:
            self.log.append(self.pool.batch(()))
            self.log.append(self.pool.iterations_to_completion())
            self.log.append([self.pool.blocks_to_grow(f, n) for f in (0, 1, 5) for n in (1, 2, 9)])
            self.log.append([self.pool.needs_block(s) for s in members])

    def ended(self) -> object:
        self.drop(self.pool.in_admission_order())
        gaps, counts = self.gaps.distinct()
        fields = [(s.row, s._generated, s._last_token_ns, s._max_tbt_ns) for s in self.left]
        return fields, gaps.tolist(), counts.tolist()


VERBS = st.tuples(st.sampled_from(["add", "add", "wait", "remove", "all", "all", "some"]), st.integers(0, 63))


@settings(max_examples=300, deadline=None)
@given(st.lists(VERBS, max_size=40), st.integers(1, 5))
def test_aggregates_equal_the_plain_pool(verbs: list[tuple[str, int]], block_size: int) -> None:
    plain, epochs = Pool(PlainDecodes, block_size), Pool(EpochDecodes, block_size)
    for verb, number in verbs:
        plain.act(verb, number)
        epochs.act(verb, number)
        assert plain.log == epochs.log
    assert plain.ended() == epochs.ended()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), min_size=1), st.integers(0, 60))
def test_recent_peaks_is_the_maximum_since(steps: list[tuple[int, int]], since: int) -> None:
    peaks, seen, epoch = RecentPeaks(), [], 0
    for step, gap in steps:
        epoch += 1 + step
        peaks.push(epoch, gap)
        seen.append((epoch, gap))
    assert peaks.since(since) == max((gap for at, gap in seen if at >= since), default=0)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(0, 30),
    st.integers(1, 50),
)
def test_fitting_iterations_is_the_largest_that_fits(
    entries: list[int], block_size: int, free: int, limit: int
) -> None:
    def grow(first: int, iterations: int) -> int:
        return sum((e + a) % block_size == 0 for e in entries for a in range(first, first + iterations))

    fits = fitting_iterations(grow, len(entries), block_size, free, limit)
    assert fits == max(n for n in range(limit + 1) if grow(1, n) <= free)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=60))
def test_gap_log_is_a_multiset(samples: list[tuple[int, int]]) -> None:
    log = GapLog()
    log._compact_at = 7
    for gap, count in samples:
        log.add(gap, count)
    gaps, counts = log.distinct()
    expected = np.sort(np.repeat(*np.array(samples or np.empty((0, 2), int)).T))
    assert np.array_equal(np.repeat(gaps, counts), expected)
    assert (np.diff(gaps) > 0).all()
