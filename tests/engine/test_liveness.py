"""Every run ends: tiny caches, prompts that hardly fit, everybody at once, every policy and option."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import FINISHED, REJECTED, RunRecord
from tests.worlds import STANDARD, LinearCost, World, make_trace, serve, with_prefixes, worlds

PAGED = tuple(name for name in STANDARD if name != "static")


@st.composite
def cramped(draw: st.DrawFn) -> World:
    """A world whose requests arrive in a burst or a trickle and need between a part and all of the cache."""
    world = draw(worlds(STANDARD))
    num_blocks = draw(st.integers(1, 6))
    most = num_blocks * world.block_size
    lengths = st.integers(1, most).flatmap(lambda p: st.tuples(st.just(p), st.integers(1, most + 2 - p)))
    rows = draw(st.lists(lengths, min_size=2, max_size=8))
    gap = draw(st.sampled_from([0, 0, 1, 40]))
    trace = make_trace([(gap * place, prompt, output) for place, (prompt, output) in enumerate(rows)])
    if world.prefix_caching:
        trace = draw(with_prefixes(trace))
    return dataclasses.replace(world, trace=trace, num_blocks=num_blocks)


@settings(max_examples=500, deadline=None)
@given(cramped())
def test_every_run_ends_and_only_what_never_fits_is_rejected(world: World) -> None:
    record = world.serve(policy_timeout_s=5.0)
    entries = world.trace.prompt_tokens + world.trace.output_tokens - 1
    fits = entries <= world.num_blocks * world.block_size
    assert np.array_equal(record.status, np.where(fits, FINISHED, REJECTED))


@settings(max_examples=500, deadline=None)
@given(cramped())
def test_preemptions_of_a_request_are_bounded_by_the_work_of_those_before_it(world: World) -> None:
    """First come, first served is kept throughout, so that only earlier ones take its blocks, and each
    time at least one of them makes progress that it keeps."""
    record = world.serve()
    served = record.status == FINISHED
    work = np.where(served, world.trace.prompt_tokens + world.trace.output_tokens, 0)
    assert (record.num_preemptions <= np.cumsum(work) - work).all()


def served_one_by_one(record: RunRecord) -> bool:
    return bool((record.first_scheduled_ns[1:] >= record.finish_ns[:-1]).all())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("memory", ["paged", "reserve"])
@pytest.mark.parametrize("policy", STANDARD)
def test_long_prompts_that_cannot_both_fit_run_one_after_the_other(
    policy: str, memory: str, asynchronous: bool
) -> None:
    """10 blocks of 4; three prompts of 24 with 8 tokens to come, 8 blocks each at the end."""
    params = {"token_budget": 10} if policy in ("stall_free", "vllm_v1") else {}
    record = serve(
        [(0, 24, 8)] * 3, policy, LinearCost(base=10), params,
        num_blocks=10, block_size=4, memory=memory, async_scheduling=asynchronous,
    )  # fmt: skip
    assert served_one_by_one(record)
    assert not record.num_preemptions.any()


@pytest.mark.parametrize("policy", PAGED)
def test_two_that_fit_at_first_and_not_to_the_end_both_finish(policy: str) -> None:
    """6 blocks of 4; two prompts of 8 that grow to 20 entries, 5 blocks, each: the later one gives way,
    once, since it is let in again only when its whole prefill fits."""
    record = serve([(0, 8, 13)] * 2, policy, LinearCost(base=10), num_blocks=6, block_size=4)
    assert (record.status == FINISHED).all()
    assert record.num_preemptions.tolist() == [0, 1]
