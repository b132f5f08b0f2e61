"""Cases S1 to S18 of docs/cases.md: what other engines got wrong in scheduling and memory, by hand.

An iteration lasts 1 ns unless a test says otherwise; rows are (arrival_ns, prompt_tokens, output_tokens).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from policies.continuous import Continuous
from policies.stall_free import StallFree
from sim.core.batch import Batch
from sim.core.errors import StalledError
from sim.core.protocols import Step
from sim.core.record import FINISHED, REJECTED
from tests.cases.timeline import batch_sizes, column, run, tokens
from tests.worlds import STANDARD, World, worlds

PAGED_POLICIES = ("continuous", "prefill_first", "stall_free")


@dataclass
class ShrinkingBudget(StallFree):
    """stall_free whose budget falls to 4 once six requests decode: a constant one never has too many."""

    def plan(self, step: Any) -> None:
        if step.num_decoding == 6:
            step.budget_left = 4
        super().plan(step)


def test_s1_more_decodes_than_budget_take_equal_turns_and_leave_no_chunk() -> None:
    rows = [(0, 1, 20)] * 6 + [(1, 100, 2)]
    record = run(rows, ShrinkingBudget(token_budget=100, max_batch_size=7))
    squeezed = column(record, "num_decodes")[1:13]
    assert squeezed == [4] * 12
    assert column(record, "prefill_tokens")[1:13] == [0] * 12
    assert [sum(1 < t <= 13 for t in times) for times in tokens(record)[:6]] == [8] * 6
    assert len(tokens(record)[6]) == 2


def test_s2_a_chunk_gets_what_one_decode_leaves_of_the_budget() -> None:
    record = run([(0, 4, 9), (1, 500, 1)], "stall_free", {"token_budget": 128})
    assert column(record, "num_decodes")[1] == 1
    assert column(record, "prefill_tokens")[1:5] == [127, 127, 127, 119]


@dataclass
class WholePrompts:
    """Somebody's policy: unchunked prefills under a token budget, beside the decodes."""

    token_budget: int = 100
    max_batch_size: int = 8

    def plan(self, step: Step) -> None:
        step.decode_all()
        for request in step.waiting:
            if not step.schedule(request):
                break


def test_s3_an_unchunkable_prompt_over_the_budget_raises_it_with_a_notice() -> None:
    record = run([(0, 101, 1), (0, 5, 1)], "stall_free", {"token_budget": 100, "chunked": False})
    assert tokens(record) == [[1], [2]]
    assert record.notices == ["token_budget raised from 100 to 101, the longest prompt: chunked is off"]


def test_s3_under_a_policy_that_nobody_warned_it_is_a_named_error_not_an_endless_wait() -> None:
    with pytest.raises(StalledError, match="first refusal: budget"):
        run([(0, 101, 1)], WholePrompts())


@pytest.mark.parametrize(
    ("policy", "params"),
    [
        (WholePrompts(), None),
        ("stall_free", {"token_budget": 100, "chunked": False}),
        ("continuous", {"max_prefill_tokens": 100}),
        ("prefill_first", {"max_prefill_tokens": 100}),
    ],
    ids=["WholePrompts", "stall_free", "continuous", "prefill_first"],
)
def test_s4_unchunked_prompts_that_exceed_the_budget_together_go_one_after_the_other(
    policy: Any, params: dict[str, Any] | None
) -> None:
    record = run([(0, 60, 1), (0, 60, 1)], policy, params)
    assert column(record, "prefill_tokens") == [60, 60]
    assert tokens(record) == [[1], [2]]


@pytest.mark.parametrize("policy", STANDARD)
def test_s5_a_request_over_max_model_len_is_rejected_alone_with_a_reason(policy: str) -> None:
    record = run([(0, 101, 1), (0, 90, 10), (5, 3, 2)], policy, max_model_len=100)
    assert record.status.tolist() == [REJECTED, FINISHED, FINISHED]
    assert "max_model_len 100" in record.reasons[0]


@pytest.mark.parametrize("memory", ["paged", "reserve"])
@pytest.mark.parametrize("policy", STANDARD)
def test_s6_a_request_that_never_fits_kv_is_rejected_and_the_next_completes(policy: str, memory: str) -> None:
    record = run([(0, 150, 20), (0, 32, 4)], policy, num_blocks=10, memory=memory, max_model_len=1000)
    assert record.status.tolist() == [REJECTED, FINISHED]
    assert record.reasons[0] == "needs 11 KV blocks at its longest; the cache has 10"
    assert tokens(record)[1] == [1, 2, 3, 4]


@pytest.mark.parametrize("policy", PAGED_POLICIES)
def test_s7_a_request_that_preempts_itself_is_not_in_that_batch(policy: str) -> None:
    # Five blocks of one, full but for one at t=1: the older takes it, the younger finds none and goes itself.
    record = run([(0, 2, 4), (0, 2, 3)], policy, num_blocks=5, block_size=1)
    assert column(record, "num_decodes")[1] == 1
    assert tokens(record) == [[1, 2, 3, 4], [1, 5, 6]]
    assert record.num_preemptions.tolist() == [0, 1]


@dataclass
class Audited(Continuous):
    """continuous that counts the blocks before every decision."""

    used: Any = None

    def plan(self, step: Step) -> None:
        assert step.kv.free_blocks + step.kv.used_blocks == step.kv.num_blocks
        self.used.append(step.kv.used_blocks)
        super().plan(step)


def test_s8_blocks_are_conserved_and_all_free_once_everyone_has_left() -> None:
    used: list[int] = []
    rows = [(0, 2, 5)] * 3 + [(1000, 1, 1)]
    record = run(rows, Audited(used=used), num_blocks=6, block_size=1)
    assert record.num_preemptions.sum() > 0
    assert used[0] == used[-1] == 0  # nothing before the first, nothing when the last has arrived


def test_s9_an_eviction_is_one_long_gap_and_leaves_ttft_alone() -> None:
    # Six blocks of one: the older takes its fourth at t=2, and has all six when it ends at t=5.
    record = run([(0, 2, 5), (0, 2, 4)], "continuous", num_blocks=6, block_size=1)
    assert tokens(record)[1] == [1, 2, 6, 7]
    assert record.first_token_ns[1] - record.arrival_ns[1] == 1
    assert [b - a for a, b in pairwise(tokens(record)[1])] == [1, 4, 1]
    assert record.finish_ns[1] - record.arrival_ns[1] == 7
    assert record.max_tbt_ns[1] == 4


@settings(deadline=None)
@given(world=worlds())
def test_s10_tokens_emitted_are_the_tokens_requested_whatever_was_preempted(world: World) -> None:
    record = world.serve()
    finished = record.status == FINISHED
    assert record.output_tokens_emitted == world.trace.output_tokens[finished].sum()
    assert all(finished | (record.status == REJECTED))


def test_s11_an_evicted_request_recomputes_its_prompt_and_all_it_generated() -> None:
    # Both hold prompt + 29 entries at t=30, 208 in all; the younger goes and comes back when the older ends.
    record = run([(0, 50, 40), (0, 100, 40)], "continuous", num_blocks=208, block_size=1)
    assert column(record, "prefill_tokens")[40] == 130
    assert tokens(record)[1] == [*range(1, 31), *range(41, 51)]


def test_s12_an_evicted_request_is_resumed_before_one_that_never_started() -> None:
    # The newcomer would fit from t=35, the evicted request only from t=40.
    record = run([(0, 50, 40), (0, 100, 40), (35, 1, 1)], "continuous", num_blocks=208, block_size=1)
    assert record.first_scheduled_ns[2] == 40
    assert tokens(record)[1][30] == tokens(record)[2][0] == 41


@dataclass
class SkipAhead(Continuous):
    """continuous that also tries the requests behind one that does not fit."""

    def plan(self, step: Step) -> None:
        step.decode_all()
        for request in step.waiting:
            step.schedule(request)


def test_s12_nobody_is_admitted_in_an_iteration_that_preempted() -> None:
    # At t=2 the older evicts the younger, which leaves two blocks. The newcomer needs one, and still waits.
    # (First come first served cannot show this: the victim stands in front and never fits that soon.)
    record = run([(0, 2, 5), (0, 2, 4), (2, 1, 1)], SkipAhead(), num_blocks=6, block_size=1)
    assert record.first_scheduled_ns[2] == 3


class TenMsDecodesHundredMsChunks:
    """10 ms for the decodes of an iteration, 100 ms for every 512 prompt tokens or part of them."""

    def iteration_ns(self, batch: Batch) -> int:
        return 10_000_000 * bool(batch.num_decodes) + 100_000_000 * -(-batch.prefill_tokens // 512)

    def decode_run_ns(self, batch: Batch, iterations: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.full(iterations, self.iteration_ns(batch), dtype=np.int64)


def test_s13_prefill_first_starves_a_decode_and_stall_free_does_not() -> None:
    rows = [(0, 1, 20), (115_000_000, 5120, 2)]
    cost = TenMsDecodesHundredMsChunks()
    eager = run(rows, "prefill_first", cost=cost)
    stall_free = run(rows, "stall_free", {"token_budget": 513}, cost=cost)
    assert eager.max_tbt_ns[0] == 1_010_000_000
    assert stall_free.max_tbt_ns[0] == 110_000_000  # one hybrid iteration


def test_s14_max_batch_size_limits_who_runs_and_prefill_first_fills_a_free_slot_before_decoding() -> None:
    # The report's 4, 1, 4, 4 needs a slot to be free again: here the first request ends with its prefill.
    limits = {"max_batch_size": 4}
    rows = [(0, 10, 1)] + [(0, 10, 3)] * 4
    assert batch_sizes(run(rows, "prefill_first", limits)) == [4, 1, 4, 4]
    assert batch_sizes(run(rows, "stall_free", limits)) == [4, 4, 4, 1]
    # With nobody ending early both run the fifth alone, at the end.
    for policy in ("prefill_first", "stall_free"):
        assert batch_sizes(run([(0, 10, 2)] * 5, policy, limits)) == [4, 4, 1, 1]


def test_s15_a_partial_prefill_counts_against_max_batch_size() -> None:
    rows = [(0, 1, 3), (0, 12, 1), (0, 1, 1)]
    record = run(rows, "stall_free", {"token_budget": 10, "max_batch_size": 2})
    assert column(record, "prefill_tokens") == [10, 3, 1]
    assert record.first_scheduled_ns.tolist() == [0, 0, 2]  # budget for it at 1, but no slot


def test_s16_a_chunk_ends_where_the_budget_does_and_a_block_where_its_entries_do() -> None:
    record = run([(0, 16, 3)], "stall_free", {"token_budget": 10})
    assert column(record, "prefill_tokens") == [10, 6, 0, 0]
    assert column(record, "kv_blocks_used") == [1, 1, 2, 2]  # the first decode writes entry 17
    record = run([(0, 260, 1)], "stall_free", {"token_budget": 128})
    assert column(record, "prefill_tokens") == [128, 128, 4]


def test_s17_static_batches_waste_more_than_half_of_their_slots() -> None:
    rows = [(0, 5, n) for n in (40, 3, 25, 5, 60, 4, 18, 6, 33, 2, 50, 8)]
    static = run(rows, "static", {"max_batch_size": 4})
    assert static.num_iterations == 150
    assert (static.used_slot_iterations, static.idle_slot_iterations) == (254, 346)  # 58 % of 600
    continuous = run(rows, "continuous", {"max_batch_size": 4})
    assert continuous.num_iterations == 83
    assert sum(batch_sizes(continuous)) == 254  # of 332: 23 % idle


@pytest.mark.parametrize("policy", STANDARD)
def test_s18_an_arrival_inside_an_iteration_is_not_in_its_batch(policy: str) -> None:
    rows = [(4, 3, 2), (5, 3, 1), (6, 3, 1)]
    two_ns = run(rows, policy, cost=TwoNs())
    assert all(two_ns.arrival_ns <= two_ns.first_scheduled_ns)
    assert all(two_ns.first_scheduled_ns < two_ns.first_token_ns)
    later = 8 if policy == "static" else 6  # static's first batch runs to its end
    assert two_ns.first_scheduled_ns.tolist() == [4, later, later]


class TwoNs:
    """Every iteration lasts 2 ns."""

    def iteration_ns(self, batch: Batch) -> int:
        return 2

    def decode_run_ns(self, batch: Batch, iterations: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.full(iterations, 2, dtype=np.int64)
