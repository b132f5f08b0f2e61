"""Prefix caching: what is found, what is evicted, what a hit costs; by hand and by law.

Cost: an iteration takes 10 ns, 1 ns more a decode, and 2 ns more a prefill token.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import RunRecord
from sim.core.request import Request, RequestState
from sim.core.trace import Trace
from sim.kv import PrefixCache
from tests.worlds import LinearCost, make_trace, serve, traces, with_prefixes

COST = LinearCost(base=10, per_decode=1, per_prefill_token=2)
A, B = 0, 1


def run(
    rows: list[tuple[int, int, int]], hashes: list[tuple[int, ...]], each: int, **settings: Any
) -> RunRecord:
    """Serve rows with prefix hashes of `each` tokens by `continuous`, unless `policy` says otherwise."""
    trace = make_trace(rows, prefix_hashes=hashes, hash_block_tokens=each)
    policy, params = settings.pop("policy", "continuous"), settings.pop("params", None)
    return serve(trace, policy, COST, params, prefix_caching=True, **settings)


def computed(record: RunRecord) -> list[int]:
    """Prefill tokens of the iterations that had any."""
    return [tokens for tokens in record.iterations[:, 4].tolist() if tokens]


def test_a_prompt_seen_before_is_not_computed_again() -> None:
    """Blocks of 4, prompts of 10 that share their first two hashes; the third covers half a block."""
    record = run([(0, 10, 1), (50, 10, 1)], [(1, 2, 3), (1, 2, 3)], 4, block_size=4)
    assert computed(record) == [10, 2]
    assert record.token_times == {A: [30], B: [64]}
    assert (record.prefix_query_tokens, record.prefix_hit_tokens) == (20, 8)


def test_the_last_token_is_always_computed_and_with_it_its_block() -> None:
    record = run([(0, 8, 1), (50, 8, 1)], [(1, 2), (1, 2)], 4, block_size=4)
    assert computed(record) == [8, 4]


def test_a_request_admitted_in_the_same_iteration_hits_what_it_computes() -> None:
    record = run([(0, 10, 1), (0, 10, 1)], [(1, 2, 3), (1, 2, 3)], 4, block_size=4)
    assert computed(record) == [12]
    assert record.kv_peak_blocks == 4


def test_chunks_not_planned_yet_are_not_hit() -> None:
    """Budget 6, blocks of 4. First 6 of A's 8 tokens; then its last 2 and, of B's 9, all but 8."""
    rows, hashes, params = [(0, 8, 1), (0, 9, 1)], [(1, 2), (1, 2, 3)], {"token_budget": 6}
    for policy in ("stall_free", "vllm_v1"):
        record = run(rows, hashes, 4, block_size=4, policy=policy, params=params)
        assert computed(record) == [6, 3]


@pytest.mark.parametrize(("each", "block_size", "hit"), [(8, 2, 16), (4, 8, 16), (6, 4, 16), (16, 16, 16)])
def test_a_hash_may_cover_several_blocks_or_a_part_of_one(each: int, block_size: int, hit: int) -> None:
    """Prompts of 19 tokens that share whatever whole hashes cover, at least 16 of them."""
    hashes = tuple(range(-(-19 // each)))
    record = run([(0, 19, 1), (90, 19, 1)], [hashes, hashes], each, block_size=block_size)
    assert record.prefix_hit_tokens == hit


def test_the_next_turn_of_a_session_hits_prompt_and_output() -> None:
    """Blocks of 2. The first turn's 6 + 4 tokens leave 9 entries, 4 full blocks, for a prompt of 12."""
    trace = make_trace(
        [(0, 6, 4), (0, 12, 1)],
        session=np.array([1, 1]),
        prefix_hashes=[(1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)],
        hash_block_tokens=2,
    )
    record = serve(trace, "continuous", COST, block_size=2, prefix_caching=True)
    assert computed(record) == [6, 4]
    assert record.token_times == {A: [22, 33, 44, 55], B: [73]}


def test_a_preempted_request_hits_what_is_left_of_its_own_blocks() -> None:
    """5 blocks of 2; A (0, 3, 5) and B (0, 3, 5), without any hashes.

    0-22: both prompts. 22-34: decodes; both now hold 4 entries in 2 blocks. A takes the fifth block, B
    finds none and gives way; its two full blocks stay findable. A alone: 34-45, 45-56, and 56-67 with
    its 4th block, for which B's second one is evicted. 67-83: B needs 3 + 2 tokens, 2 are found (10
    + 6); then 83-94, 94-105.
    """
    rows, cache = [(0, 3, 5), (0, 3, 5)], {"num_blocks": 5, "block_size": 2}
    record = serve(rows, "continuous", COST, prefix_caching=True, **cache)
    assert record.token_times == {A: [22, 34, 45, 56, 67], B: [22, 34, 83, 94, 105]}
    assert record.prefix_hit_tokens == 2
    uncached = serve(rows, "continuous", COST, **cache)
    assert uncached.token_times == {A: [22, 34, 45, 56, 67], B: [22, 34, 87, 98, 109]}


def test_shared_blocks_of_a_running_request_need_no_room() -> None:
    """3 blocks of 4: A holds 2 of them and a third is free; B, 9 tokens, needs just that one."""
    rows, hashes = [(0, 8, 5), (1, 9, 1)], [(1, 2), (1, 2, 3)]
    record = run(rows, hashes, 4, block_size=4, num_blocks=4)
    assert record.first_scheduled_ns.tolist() == [0, 26]
    alone = serve(rows, "continuous", COST, block_size=4, num_blocks=4)
    assert alone.first_scheduled_ns[B] == alone.finish_ns[A]


class Cache:
    """A PrefixCache of blocks of one token, and requests that come and go."""

    def __init__(self, num_blocks: int) -> None:
        self.kv = PrefixCache(num_blocks, 1, 1)
        self.rows = 0

    def start(self, *hashes: int, prompt: int = 0) -> RequestState:
        state = RequestState(Request(self.rows, "r", 0, prompt or len(hashes), 1, prefix_hashes=hashes))
        self.rows += 1
        self.kv.admit(state, state.prompt_tokens)
        self.kv.note_prefill(state, state.prompt_tokens)
        state.prefilled_tokens, state._generated = state.prompt_tokens, 1
        return state

    def finish(self, *states: RequestState) -> None:
        for state in states:
            self.kv.release(state)

    def finds(self, *hashes: int) -> int:
        prompt = len(hashes) + 1
        return self.kv.cached_tokens(RequestState(Request(99, "q", 0, prompt, 1, prefix_hashes=hashes)))


def test_the_least_recently_freed_is_evicted_first_and_of_it_the_end() -> None:
    cache = Cache(6)
    first, second = cache.start(1, 2, 3), cache.start(4, 5, 6)
    cache.finish(first, second)
    assert (cache.finds(1, 2, 3), cache.finds(4, 5, 6)) == (3, 3)
    cache.finish(cache.start(prompt=2))
    assert (cache.finds(1, 2, 3), cache.finds(4, 5, 6)) == (1, 3)


def test_a_hit_makes_a_prefix_young_again() -> None:
    cache = Cache(6)
    cache.finish(cache.start(1, 2, 3), cache.start(4, 5, 6))
    cache.finish(cache.start(1, 2, 3))
    cache.finish(cache.start(prompt=2))
    assert (cache.finds(1, 2, 3), cache.finds(4, 5, 6)) == (3, 1)


def test_a_block_in_use_is_never_evicted() -> None:
    cache = Cache(6)
    first, again = cache.start(1, 2, 3), cache.start(1, 2, 7)
    cache.finish(first)
    cache.finish(cache.start(prompt=2))
    cache.finish(cache.start(prompt=3))
    assert cache.finds(1, 2, 7) == 3
    assert (cache.kv.used_blocks, cache.kv.free_blocks) == (3, 3)
    cache.finish(again)
    cache.kv.check()


def test_blanks_are_used_before_anything_is_evicted_that_was_freed_later() -> None:
    cache = Cache(8)
    cache.finish(cache.start(1, 2, 3))
    cache.finish(cache.start(prompt=5))
    assert cache.finds(1, 2, 3) == 3


def test_equal_blocks_computed_twice_are_both_found_in_turn() -> None:
    """The last block of an equal prompt is computed again, and stays when the older one is evicted."""
    cache = Cache(4)
    first = cache.start(1, 2)
    second = cache.start(1, 2)
    assert cache.kv.used_blocks == 3
    cache.finish(first)
    third = cache.start(prompt=2)
    assert cache.finds(1, 2) == 2
    cache.finish(second, third)
    assert cache.kv.free_blocks == 4


def test_blocks_planned_but_not_computed_are_forgotten() -> None:
    cache = Cache(4)
    state = cache.start(1, 2, 3)
    state.prefilled_tokens, state._generated = 1, 0
    cache.finish(state)
    assert cache.finds(1, 2, 3) == 1


def longest_seen(hashes: tuple[int, ...], prompt: int, seen: set[int], each: int) -> int:
    whole = min(len(hashes), (prompt - 1) // each)
    return next((k for k in range(whole) if hashes[k] not in seen), whole) * each


@settings(max_examples=150, deadline=None)
@given(traces(st.integers(0, 3000)).flatmap(with_prefixes))
def test_one_by_one_and_unlimited_the_longest_prefix_ever_seen_is_hit(trace: Trace) -> None:
    """With blocks as long as a hash; a hash is seen once a request that it covers whole has left."""
    assert trace.hash_block_tokens is not None and trace.prefix_hashes is not None
    each, seen, hit = trace.hash_block_tokens, set(), 0
    for row, hashes in enumerate(trace.prefix_hashes):
        prompt, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
        hit += longest_seen(hashes, prompt, seen, each)
        is_whole = len(hashes) > -(-prompt // each)
        entries = prompt + output - 1 if is_whole else prompt
        seen.update(hashes[: entries // each])
    record = serve(trace, "continuous", COST, {"max_batch_size": 1}, block_size=each, prefix_caching=True)
    assert record.prefix_hit_tokens == hit
    assert record.iterations[:, 4].sum() + hit == trace.prompt_tokens.sum()
