"""The oracle against timelines computed by hand, so that the judge is itself judged.

Names S1 to S18 are the cases of docs/cases.md. An iteration lasts 1 ns unless a test says otherwise, so a
time is also the number of iterations that have passed.
"""

from itertools import pairwise
from typing import Any

import pytest

from tests.oracle.simulator import NoProgress, Oracle, simulate


def unit_cost(decodes: int, context: int, chunks: list[tuple[int, int]]) -> int:
    return 1


def settings(**changed: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "token_budget": 512, "max_batch_size": 8, "num_blocks": 1000, "block_size": 16, "memory": "paged",
        "watermark": 0.0, "max_model_len": None, "max_wait_ns": 0, "cost": unit_cost,
    }
    return plain | changed


def run(requests: list[tuple[int, int, int]], policy: str, **changed: Any) -> dict[str, Any]:
    return simulate(requests, policy, **settings(**changed))


def batch_sizes(result: dict[str, Any]) -> list[int]:
    return [i["decodes"] + len(i["chunks"]) for i in result["iterations"]]


def test_s1_more_decodes_than_budget_take_turns_and_leave_no_chunk() -> None:
    oracle = Oracle([(0, 1, 9)] * 6 + [(0, 100, 2)], "stall_free", **settings(token_budget=4))
    oracle.take_arrivals()
    for _ in range(7):
        oracle.admit()
    for req in oracle.running[:6]:
        req.cached, req.tokens = 1, [0]
    turns = [0] * 6
    for _ in range(12):
        decodes, chunks = oracle.plan_stall_free()
        assert (len(decodes), chunks) == (4, [])
        oracle.now += 1
        for req in decodes:
            req.tokens.append(oracle.now)
            turns[req.row] += 1
    assert turns == [8] * 6


def test_s2_a_chunk_gets_the_budget_that_decodes_leave() -> None:
    result = run([(0, 4, 9), (1, 500, 1)], "stall_free", token_budget=128)
    assert result["iterations"][1]["chunks"] == [(127, 0)]


def test_s5_only_the_request_over_max_model_len_is_rejected() -> None:
    result = run([(0, 90, 11), (0, 90, 10), (5, 3, 2)], "continuous", max_model_len=100)
    assert result["rejected"] == {0}
    assert [len(t) for t in result["token_times"]] == [0, 10, 2]


@pytest.mark.parametrize("policy", ["static", "continuous", "prefill_first", "stall_free"])
@pytest.mark.parametrize("memory", ["paged", "reserve"])
def test_s6_a_request_that_can_never_fit_the_cache_is_rejected(policy: str, memory: str) -> None:
    result = run([(0, 150, 20), (0, 32, 4)], policy, num_blocks=10, memory=memory)
    assert result["rejected"] == {0}
    assert result["token_times"] == [[], [1, 2, 3, 4]]


def test_s9_eviction_shows_as_one_long_gap() -> None:
    # Six blocks of one: both hold 3 entries at t=2, the older takes the fourth, and needs all six by t=5.
    result = run([(0, 2, 5), (0, 2, 4)], "continuous", num_blocks=6, block_size=1)
    assert result["token_times"] == [[1, 2, 3, 4, 5], [1, 2, 6, 7]]
    assert result["preemptions"] == [0, 1]
    assert result["first_scheduled"] == [0, 0]


def test_s11_s12_an_evicted_request_recomputes_all_and_resumes_before_newcomers() -> None:
    # At t=30 both hold prompt + 29 entries, 208 in all. There is room for the newcomer at t=35.
    result = run([(0, 50, 40), (0, 100, 40), (35, 1, 1)], "continuous", num_blocks=208, block_size=1)
    assert result["token_times"][1] == [*range(1, 31), *range(41, 51)]
    assert result["iterations"][40]["chunks"] == [(130, 0), (1, 0)]
    assert result["first_scheduled"] == [0, 0, 40]


def test_s13_prefill_first_starves_decodes_and_stall_free_does_not() -> None:
    def cost(decodes: int, context: int, chunks: list[tuple[int, int]]) -> int:
        return 10 * bool(decodes) + 100 * -(-sum(tokens for tokens, _ in chunks) // 512)

    requests = [(0, 1, 20), (115, 5120, 2)]
    worst = {}
    for policy in ("prefill_first", "stall_free"):
        times = run(requests, policy, token_budget=513, cost=cost)["token_times"][0]
        worst[policy] = max(b - a for a, b in pairwise(times))
    assert worst == {"prefill_first": 1010, "stall_free": 110}


def test_s14_a_slot_freed_at_prefill_is_filled_at_once_by_each_rule() -> None:
    requests = [(0, 10, 1), (0, 10, 3), (0, 10, 3), (0, 10, 3), (0, 10, 3)]
    assert batch_sizes(run(requests, "prefill_first", max_batch_size=4)) == [4, 1, 4, 4]
    assert batch_sizes(run(requests, "stall_free", max_batch_size=4)) == [4, 4, 4, 1]
    assert batch_sizes(run([(0, 10, 2)] * 5, "stall_free", max_batch_size=4)) == [4, 4, 1, 1]


def test_s15_a_partial_prefill_holds_a_slot() -> None:
    result = run([(0, 1, 3), (0, 12, 1), (0, 1, 1)], "stall_free", token_budget=10, max_batch_size=2)
    assert [i["chunks"] for i in result["iterations"]] == [[(1, 0), (9, 0)], [(3, 9)], [(1, 0)]]
    assert result["first_scheduled"] == [0, 0, 2]


def test_s16_chunks_end_where_the_budget_does_and_blocks_where_entries_do() -> None:
    result = run([(0, 16, 3)], "stall_free", token_budget=10)
    assert [i["chunks"] for i in result["iterations"]] == [[(10, 0)], [(6, 10)], [], []]
    assert [i["used"] for i in result["iterations"]] == [1, 1, 2, 2]  # a decode writes entry 17
    result = run([(0, 260, 1)], "stall_free", token_budget=128)
    assert [i["chunks"] for i in result["iterations"]] == [[(128, 0)], [(128, 128)], [(4, 256)]]


def test_s17_static_waste() -> None:
    requests = [(0, 5, n) for n in (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)]
    static, continuous = (run(requests, policy, max_batch_size=4) for policy in ("static", "continuous"))
    assert [len(static["iterations"]), len(continuous["iterations"])] == [150, 83]
    assert sum(batch_sizes(continuous)) == 254
    assert set(batch_sizes(static)) == {4}


def test_s18_an_arrival_inside_an_iteration_waits_for_its_end() -> None:
    two_ns = run([(4, 3, 2), (5, 3, 1), (6, 3, 1)], "continuous", cost=lambda *batch: 2)
    assert two_ns["first_scheduled"] == [4, 6, 6]
    assert two_ns["token_times"] == [[6, 8], [8], [8]]


def test_static_pads_prompts_and_contexts_and_holds_memory_to_the_end() -> None:
    seen: list[tuple[int, int, list[tuple[int, int]]]] = []

    def cost(decodes: int, context: int, chunks: list[tuple[int, int]]) -> int:
        seen.append((decodes, context, chunks))
        return 10

    result = run([(0, 3, 1), (0, 7, 3), (1, 2, 1)], "static", max_batch_size=2, cost=cost)
    assert seen == [(0, 0, [(7, 0), (7, 0)]), (2, 16, []), (2, 18, []), (0, 0, [(2, 0)])]
    assert result["token_times"] == [[10], [10, 20, 30], [40]]
    assert [i["used"] for i in result["iterations"]] == [2, 2, 2, 1]


def test_static_waits_until_full_or_the_oldest_has_waited() -> None:
    first = run([(0, 1, 1), (3, 1, 1), (9, 1, 1)], "static", max_batch_size=2, max_wait_ns=5)
    assert first["first_scheduled"] == [3, 3, 14]  # full at 3; then nobody comes and 9 + 5 is reached
    late = run([(0, 1, 1), (5, 1, 1)], "static", max_batch_size=3, max_wait_ns=5)
    assert late["first_scheduled"] == [5, 5]  # the one that comes exactly as the wait ends is in


def test_watermark_is_kept_free_except_for_an_idle_replica() -> None:
    requests = [(0, 8, 2), (0, 1, 1)]  # ten blocks of one, half of them beyond the watermark
    result = run(requests, "continuous", num_blocks=10, block_size=1, watermark=0.5)
    assert result["first_scheduled"] == [0, 2]


def test_a_request_may_preempt_itself() -> None:
    # Five blocks of one, one free after the prefills: at t=2 the older takes it; the younger finds none
    # and goes itself. It has to prefill three again, and two are free until the older ends.
    result = run([(0, 2, 4), (0, 2, 3), (1, 1, 1)], "prefill_first", num_blocks=5, block_size=1)
    assert result["token_times"] == [[1, 3, 4, 5], [1, 6, 7], [2]]
    assert result["preemptions"] == [0, 1, 0]


def test_s7_a_decode_evicts_the_partial_prefill_admitted_last_which_starts_again() -> None:
    # At t=0 one takes one block and the other the six of its whole prompt; at t=1 the first needs another.
    result = run([(0, 1, 3), (0, 6, 1)], "stall_free", num_blocks=7, block_size=1, token_budget=4)
    assert [(i["decodes"], i["chunks"]) for i in result["iterations"]] == [
        (0, [(1, 0), (3, 0)]), (1, []), (1, []), (0, [(4, 0)]), (0, [(2, 4)])]
    assert result["preemptions"] == [0, 1]


def test_s12_skipping_ahead_still_admits_nobody_beside_a_preemption() -> None:
    # At t=2 the older evicts the younger, which leaves two blocks. The newcomer needs one, and still waits.
    result = run([(0, 2, 5), (0, 2, 4), (2, 1, 1)], "skip_ahead", num_blocks=6, block_size=1)
    assert result["first_scheduled"] == [0, 0, 3]


def test_ties_in_arrival_go_by_row() -> None:
    result = run([(5, 1, 1), (0, 1, 1), (5, 1, 1), (0, 1, 1)], "continuous", max_batch_size=1)
    assert result["first_scheduled"] == [5, 0, 6, 1]


def test_work_that_can_never_start_is_an_error() -> None:
    with pytest.raises(NoProgress):
        run([(0, 1, 1)], "continuous", max_batch_size=0)
