"""Options of the built-in policies: the paper's ablation, tile alignment, prefill caps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds import LinearCost, World, serve, worlds

COST = LinearCost(base=10, per_decode=1, per_prefill_token=2)
ROWS = [(0, 4, 4), (5, 6, 2)]
A, B = 0, 1


def chunks(record: Any) -> list[tuple[int, int]]:
    """(decodes, prefill tokens) of each iteration."""
    return [tuple(row) for row in record.iterations[:, [2, 4]].tolist()]


def test_chunked_only_alternates_chunks_and_decodes() -> None:
    params = {"token_budget": 4, "hybrid": False}
    record = serve(ROWS, "stall_free", COST, params, mode="reference")
    assert chunks(record) == [(0, 4), (1, 0), (0, 4), (1, 0), (0, 2), (2, 0)]
    assert record.token_times == {A: [18, 29, 58, 84], B: [72, 84]}


def test_hybrid_only_runs_whole_prompts_beside_the_decodes() -> None:
    params = {"token_budget": 8, "chunked": False}
    record = serve(ROWS, "stall_free", COST, params, mode="reference")
    assert chunks(record) == [(0, 4), (1, 6), (2, 0), (1, 0)]


def test_unchunked_prompts_wait_for_a_budget_that_holds_them_whole() -> None:
    """S4: B = 100, prompts 60 and 60: the second waits; no iteration exceeds 100."""
    params = {"token_budget": 100, "chunked": False}
    record = serve([(0, 60, 2), (0, 60, 2)], "stall_free", COST, params, mode="reference")
    assert chunks(record)[:2] == [(0, 60), (1, 60)]


def test_unchunked_prompt_longer_than_the_budget_raises_it_with_a_notice() -> None:
    """S3."""
    record = serve([(0, 60, 2)], "stall_free", COST, {"token_budget": 50, "chunked": False})
    assert chunks(record)[0] == (0, 60)
    assert record.notices == [
        "token_budget raised from 50 to 60, the longest prompt: chunked is off"
    ]


def test_chunks_are_multiples_but_for_the_last() -> None:
    params = {"token_budget": 10, "chunk_multiple": 4}
    record = serve([(0, 4, 9), (0, 22, 2)], "stall_free", COST, params, mode="reference")
    assert chunks(record)[:5] == [(0, 8), (1, 8), (1, 8), (1, 2), (2, 0)]


@pytest.mark.parametrize("policy", ["continuous", "prefill_first"])
def test_a_prefill_cap_bounds_the_admissions_of_an_iteration(policy: str) -> None:
    rows = [(0, 30, 1), (0, 5, 1), (0, 5, 1), (0, 5, 1)]
    record = serve(rows, policy, COST, {"max_prefill_tokens": 10}, mode="reference")
    assert [tokens for _, tokens in chunks(record)] == [30, 10, 5]


OPTIONS = st.fixed_dictionaries(
    {
        "hybrid": st.booleans(),
        "chunked": st.booleans(),
        "chunk_multiple": st.integers(1, 3),
        "token_budget": st.integers(3, 12),
    }
)


@settings(max_examples=300, deadline=None)
@given(worlds(("stall_free",)), OPTIONS)
def test_every_combination_ends_and_fast_equals_reference(world: World, options: dict[str, Any]) -> None:
    params = {**world.params, **options}
    fast, reference = (
        serve(
            world.trace,
            world.policy,
            world.cost,
            params,
            mode=mode,
            num_blocks=world.num_blocks,
            block_size=world.block_size,
            memory=world.memory,
        )
        for mode in ("fast", "reference")
    )
    assert fast.token_times == reference.token_times
    decodes, tokens = reference.iterations[:, [2, 4]].T
    budget = max(options["token_budget"], 0 if options["chunked"] else world.trace.prompt_tokens.max())
    assert (decodes + tokens <= budget).all()
    if not options["hybrid"]:
        assert not np.logical_and(decodes, tokens).any()


def test_multi_step_decides_every_so_many_decode_iterations() -> None:
    """3 decode iterations a decision. A (0, 4, 3), B (5, 6, 2) and C, which has to wait, by hand.

    0-18: A's prompt. 18-41: A's decode and B's prompt. 41-53: A and B decode and are done, in the
    first of three repetitions; nobody is left, so the next decision is due at once: C 53-67.
    """
    record = serve([(0, 4, 3), (5, 6, 2), (42, 2, 2)], "continuous", COST, {"num_steps": 3})
    assert record.token_times == {0: [18, 41, 53], 1: [41, 53], 2: [67, 78]}


def test_in_multi_step_a_finished_slot_costs_until_the_decision() -> None:
    """A (0, 1, 2) and B (0, 1, 5), 3 steps; C arrives at 20.

    0-14: both prompts. 14-26: both decode, A done. 26-38, 38-50: B, and A's slot still costs. At 50 a
    decision: C's prompt beside B: 50-63, B done.
    """
    rows = [(0, 1, 2), (0, 1, 5), (20, 1, 1)]
    record = serve(rows, "continuous", COST, {"num_steps": 3})
    assert record.token_times == {0: [14, 26], 1: [14, 26, 38, 50, 63], 2: [63]}
    assert record.idle_slot_iterations == 2


@settings(max_examples=200, deadline=None)
@given(worlds(("continuous",)), st.integers(2, 5))
def test_multi_step_ends_and_fast_equals_reference(world: World, num_steps: int) -> None:
    world.params["num_steps"] = num_steps
    fast, reference = world.serve("fast"), world.serve("reference")
    assert fast.token_times == reference.token_times
    assert fast.kv_peak_blocks == reference.kv_peak_blocks
    assert fast.idle_slot_iterations == reference.idle_slot_iterations
