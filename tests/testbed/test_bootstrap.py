"""Bootstrap: the requests of a file drawn again in blocks, so that seeds differ."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.errors import ConfigError
from sim.trace.bootstrap import bootstrapped
from tests.worlds import make_trace

TRACE = make_trace([(10 * i, 100 + i, 200 + i) for i in range(12)])


@given(st.integers(1, 15), st.integers(0, 50))
def test_it_has_as_many_requests_each_with_its_own_lengths(blocks: int, seed: int) -> None:
    made = bootstrapped(TRACE, blocks, seed)
    assert len(made) == 12 and made.arrival_ns[0] == 0
    assert (made.output_tokens - made.prompt_tokens == 100).all()
    assert set(made.prompt_tokens.tolist()) <= set(TRACE.prompt_tokens.tolist())
    assert (np.diff(made.arrival_ns) == 10).all()


def test_neighbours_stay_neighbours_within_a_block() -> None:
    made = bootstrapped(TRACE, 3, seed=4).prompt_tokens - 100
    for block in made.reshape(3, 4):
        assert ((np.diff(block) % 12) == 1).all()


def test_the_seed_decides_and_nothing_else() -> None:
    assert bootstrapped(TRACE, 4, 1).hash == bootstrapped(TRACE, 4, 1).hash
    assert len({bootstrapped(TRACE, 4, seed).hash for seed in range(6)}) > 3


def test_each_request_is_as_likely_as_any_other() -> None:
    drawn = np.concatenate([bootstrapped(TRACE, 4, seed).prompt_tokens - 100 for seed in range(600)])
    assert np.bincount(drawn, minlength=12) == pytest.approx(600, rel=0.15)


def test_gaps_travel_with_the_request_before_them() -> None:
    trace = make_trace([(0, 1, 1), (5, 2, 1), (105, 3, 1)])
    made = bootstrapped(trace, 3, seed=0)
    gap_after = {1: 5, 2: 100, 3: 52}  # after the last one: the mean of the others, rounded to even
    assert np.diff(made.arrival_ns).tolist() == [gap_after[p] for p in made.prompt_tokens[:-1].tolist()]


def test_sessions_are_drawn_whole_and_a_copy_is_another_session() -> None:
    trace = make_trace(
        [(0, 1, 1), (10, 2, 1), (20, 3, 1), (30, 4, 1)],
        session=np.array([7, 3, 7, 3]),
        think_ns=np.array([0, 0, 5, 6]),
        request_ids=["a", "b", "c", "d"],
    )
    for seed in range(20):
        made = bootstrapped(trace, 2, seed)
        assert set(made.session.tolist()) == {0, 1}
        for number in (0, 1):
            assert made.prompt_tokens[made.session == number].tolist() in ([1, 3], [2, 4])
        assert len(set(made.request_ids)) == 4


def test_a_copy_shares_what_others_share_and_nothing_of_its_own() -> None:
    trace = make_trace([(0, 8, 1), (5, 8, 1)], prefix_hashes=[(1, 2), (1, 3)], hash_block_tokens=4)
    drawn_twice = next(
        made for seed in range(20)
        if len(set((made := bootstrapped(trace, 2, seed)).prefix_hashes or ())) == 2
        and made.prefix_hashes[0][1] % 2**64 == made.prefix_hashes[1][1] % 2**64
    )  # fmt: skip
    first, second = drawn_twice.prefix_hashes
    assert first[0] == second[0] == 1
    assert first[1] != second[1]


def test_it_says_so_and_refuses_less_than_one_block() -> None:
    said = bootstrapped(TRACE, 4, 9).notices[-1]
    assert said == "requests drawn again from the trace in blocks of 3"
    with pytest.raises(ConfigError, match="bootstrap: 0 is too small"):
        bootstrapped(TRACE, 0, 1)
    assert len(bootstrapped(dataclasses.replace(make_trace([(0, 1, 1)])), 20, 1)) == 1
