"""Async scheduling: each iteration is planned as of the start of the one before it.

Cost: an iteration takes 10 ns. tests/engine/test_vllm_v1.py holds it against a real queue of two
batches in flight.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from policies.continuous import Continuous
from sim.core.errors import ConfigError
from sim.core.record import FINISHED
from sim.engine.teaching import TeachingAdapter
from tests.engine.taught_schedulers import CourseScheduler
from tests.engine.test_equivalence import facts
from tests.worlds import STANDARD, LinearCost, World, serve, worlds

COST = LinearCost(base=10)
A, B, C = 0, 1, 2


def test_an_arrival_counts_one_iteration_late() -> None:
    """B arrives at 5; the plan for 10-20 was made at 0, so B starts at 20."""
    rows = [(0, 1, 4), (5, 1, 1)]
    record = serve(rows, "continuous", COST, async_scheduling=True)
    assert record.token_times == {A: [10, 20, 30, 40], B: [30]}
    assert serve(rows, "continuous", COST).token_times == {A: [10, 20, 30, 40], B: [20]}


def test_an_arrival_as_an_iteration_begins_is_in_the_next() -> None:
    record = serve([(0, 1, 4), (10, 1, 1)], "continuous", COST, async_scheduling=True)
    assert record.token_times == {A: [10, 20, 30, 40], B: [30]}


def test_a_freed_slot_counts_one_iteration_late() -> None:
    """Two slots; A is done at 20, but the plan for 20-30 was made at 10: B starts at 30."""
    rows = [(0, 1, 2), (0, 1, 5), (0, 1, 1)]
    record = serve(rows, "continuous", COST, {"max_batch_size": 2}, async_scheduling=True)
    assert record.token_times == {A: [10, 20], B: [10, 20, 30, 40, 50], C: [40]}
    sync = serve(rows, "continuous", COST, {"max_batch_size": 2})
    assert sync.token_times == {A: [10, 20], B: [10, 20, 30, 40, 50], C: [30]}


def test_freed_blocks_count_one_iteration_late() -> None:
    """3 blocks of 4, one each for A and B; C, 5 tokens, needs two: free at 20, known at 30."""
    rows = [(0, 1, 2), (0, 1, 5), (0, 5, 1)]
    record = serve(rows, "continuous", COST, num_blocks=3, block_size=4, async_scheduling=True)
    assert record.first_scheduled_ns.tolist() == [0, 0, 30]
    sync = serve(rows, "continuous", COST, num_blocks=3, block_size=4)
    assert sync.first_scheduled_ns.tolist() == [0, 0, 20]


def test_a_plan_that_comes_out_empty_is_made_again_with_all_that_is_known() -> None:
    """One slot: at 20 the plan of 10 finds no slot for B and nothing else to do. It also sees C then."""
    rows = [(0, 1, 2), (0, 1, 1), (15, 1, 1)]
    record = serve(rows, "continuous", COST, {"max_batch_size": 1}, async_scheduling=True)
    assert record.token_times == {A: [10, 20], B: [30], C: [40]}
    idle = serve([(0, 1, 1), (35, 1, 1)], "continuous", COST, async_scheduling=True)
    assert idle.token_times == {A: [10], B: [45]}


def test_a_request_about_to_finish_is_not_scheduled_again() -> None:
    record = serve([(0, 4, 3)], "vllm_v1", COST, async_scheduling=True)
    assert record.num_iterations == 3
    assert record.output_tokens_emitted == 3


def test_a_victim_that_has_just_finished_loses_nothing() -> None:
    """2 blocks of 2. At 20 A needs a second block, and B, done at 20, still holds one by the plan of 10."""
    rows, cache = [(0, 1, 4), (0, 1, 2)], {"num_blocks": 2, "block_size": 2}
    record = serve(rows, "continuous", COST, async_scheduling=True, **cache)
    assert record.token_times == {A: [10, 20, 30, 40], B: [10, 20]}
    assert record.num_preemptions.tolist() == [0, 0]


def test_a_scheduler_that_reads_each_token_cannot_plan_ahead() -> None:
    with pytest.raises(ConfigError, match=r"replica\.async_scheduling: true .*'CourseScheduler'"):
        serve([(0, 1, 1)], TeachingAdapter(CourseScheduler, 4, 2), COST, async_scheduling=True)


@settings(max_examples=300, deadline=None)
@given(worlds(STANDARD))
def test_fast_equals_reference(world: World) -> None:
    world = dataclasses.replace(world, async_scheduling=True)
    assert facts(world.serve("fast")) == facts(world.serve("reference"))


class WithoutPromise(Continuous):
    """continuous, never advanced by more than one iteration."""

    steady = False


@settings(max_examples=150, deadline=None)
@given(worlds(("continuous",)))
def test_jumping_changes_nothing(world: World) -> None:
    world = dataclasses.replace(world, async_scheduling=True)
    single = dataclasses.replace(world, policy=WithoutPromise(**world.params), params={})
    assert facts(world.serve()) == facts(single.serve())


@settings(max_examples=300, deadline=None)
@given(worlds(STANDARD))
def test_who_arrives_during_an_iteration_is_in_the_next_only_if_nothing_else_could_be(world: World) -> None:
    record = dataclasses.replace(world, async_scheduling=True).serve("reference")
    start, duration, decodes = record.iterations[:, 0], record.iterations[:, 1], record.iterations[:, 2]
    for row in np.flatnonzero(record.status == FINISHED):
        place = int(np.searchsorted(start, record.first_scheduled_ns[row]))
        follows = place and start[place - 1] + duration[place - 1] == start[place]
        if follows and record.arrival_ns[row] > start[place - 1]:
            assert decodes[place] == 0
