"""Cases S19 to S29 of docs/cases.md, found in public reports: scheduling and memory, by hand.

An iteration lasts 1 ns unless a test says otherwise; rows are (arrival_ns, prompt_tokens, output_tokens).
"""

from __future__ import annotations

import pytest

from sim.core.record import FINISHED
from tests.cases.timeline import batch_sizes, column, run, tokens
from tests.worlds import STANDARD, LinearCost

FOUR = {"token_budget": 4}


def test_s19_a_prefill_is_admitted_by_its_whole_length_not_by_its_first_chunk() -> None:
    # Of eleven blocks seven are free at t=0, and fewer later. The second prompt needs eight, its chunks four.
    record = run([(0, 4, 6), (0, 8, 1)], "stall_free", FOUR, num_blocks=11, block_size=1)
    assert record.first_scheduled_ns.tolist() == [0, 6]
    assert tokens(record)[1] == [8]
    assert record.num_preemptions.sum() == 0


def test_s20_requests_do_not_share_a_block() -> None:
    record = run([(0, 2, 1), (0, 2, 1)], "continuous", num_blocks=1, block_size=128)
    assert tokens(record) == [[1], [2]]


@pytest.mark.parametrize("memory", ["paged", "reserve"])
def test_s21_growing_from_100_to_200_entries_takes_six_more_blocks_not_thirteen(memory: str) -> None:
    record = run([(0, 100, 101)], "continuous", memory=memory)
    used = column(record, "kv_blocks_used")
    assert used[0] == (7 if memory == "paged" else 13)
    assert used[-1] == record.kv_peak_blocks == 13


def test_s22_more_slots_than_blocks_is_no_deadlock() -> None:
    limits = {"token_budget": 128, "max_batch_size": 32}
    record = run([(0, 128, 128)] * 100, "stall_free", limits, num_blocks=17, block_size=4096)
    assert all(record.status == FINISHED)
    assert max(batch_sizes(record)) == record.kv_peak_blocks == 17
    assert record.num_preemptions.sum() == 0


def test_s23_requests_that_cannot_share_the_cache_finish_one_after_the_other() -> None:
    # Each needs all six blocks at its end. The third goes at t=1, the second at t=2; they do not fight.
    record = run([(0, 2, 5)] * 3, "continuous", num_blocks=6, block_size=1)
    assert tokens(record) == [[1, 2, 3, 4, 5], [1, 2, 6, 7, 8], [1, 9, 10, 11, 12]]
    assert record.num_preemptions.tolist() == [0, 1, 1]


def test_s24_removing_a_victim_does_not_cost_another_request_its_turn() -> None:
    # At t=1 the first evicts the third; the second, next in line, still decodes in that iteration.
    record = run([(0, 1, 2), (0, 2, 2), (0, 3, 2)], "continuous", num_blocks=6, block_size=1)
    assert tokens(record) == [[1, 2], [1, 2], [1, 3]]


def test_s25_long_prompts_are_in_progress_one_at_a_time_and_none_is_lost() -> None:
    # 100, 100, 50 + 50, 100, 100, 100, 100, 50.
    record = run([(0, 250, 1)] * 3, "stall_free", {"token_budget": 100})
    assert tokens(record) == [[3], [5], [8]]
    assert column(record, "num_prefills") == [1, 1, 2, 1, 1, 1, 1, 1]
    assert sum(column(record, "prefill_tokens")) == 750


@pytest.mark.parametrize("policy", STANDARD)
def test_s26_staggered_arrivals_queue_at_their_own_times(policy: str) -> None:
    # Iterations of 3 ns, arrivals at 0, 2, 4: each joins the first decision at or after it arrives.
    record = run([(0, 1, 1), (2, 1, 1), (4, 1, 1)], policy, cost=LinearCost(base=3))
    queue_ns = record.first_scheduled_ns - record.arrival_ns
    ttft_ns = record.first_token_ns - record.arrival_ns
    assert (queue_ns.tolist(), ttft_ns.tolist()) == ([0, 1, 2], [3, 4, 5])


def test_s27_the_watermark_never_blocks_an_idle_replica() -> None:
    # Half of ten blocks are to stay free, and the first prompt takes eight: admitted, since nothing runs.
    record = run([(0, 8, 2), (0, 1, 1)], "continuous", num_blocks=10, block_size=1, watermark=0.5)
    assert record.first_scheduled_ns.tolist() == [0, 2]


@pytest.mark.parametrize("policy", STANDARD)
def test_s28_small_requests_do_not_overtake_one_that_does_not_fit(policy: str) -> None:
    record = run([(0, 4, 4), (0, 8, 1), (0, 1, 1), (0, 1, 1)], policy, num_blocks=10, block_size=1)
    assert record.first_scheduled_ns.tolist() == [0, 4, 4, 4]


def test_s29_two_victims_of_one_iteration_come_back_in_their_old_order() -> None:
    # At t=1 the first evicts the fourth and the second the third. Both resume at t=2. At t=3 the third needs
    # a block and evicts the fourth, which must therefore have been admitted after it.
    record = run([(0, 1, 2), (0, 1, 2), (0, 1, 3), (0, 1, 3)], "continuous", num_blocks=4, block_size=1)
    assert tokens(record) == [[1, 2], [1, 2], [1, 3, 4], [1, 3, 5]]
    assert record.num_preemptions.tolist() == [0, 0, 1, 2]
