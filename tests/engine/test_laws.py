"""Laws that hold for every registered policy on every trace, under every limit and cost."""

import numpy as np
import pytest
from hypothesis import given, settings

from sim.core.record import FINISHED, REJECTED, RunRecord
from sim.core.registry import POLICIES
from sim.core.units import UNSET_NS
from tests.worlds import World, worlds

LAW = settings(max_examples=150, deadline=None)
BUILT_IN = tuple(name for name in POLICIES if POLICIES.get(name).__module__.startswith("policies."))


def lengths(world: World, record: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    served = record.status == FINISHED
    return world.trace.prompt_tokens[served], world.trace.output_tokens[served]


@LAW
@given(worlds(BUILT_IN))
def test_every_request_is_finished_or_rejected_with_a_reason(world: World) -> None:
    record = world.serve()
    assert set(record.status.tolist()) <= {FINISHED, REJECTED}
    assert sorted(record.reasons) == np.flatnonzero(record.status == REJECTED).tolist()
    assert all(record.reasons.values())


@LAW
@given(worlds(BUILT_IN))
def test_tokens_are_conserved(world: World) -> None:
    record = world.serve()
    _, output = lengths(world, record)
    times = record.token_times or {}
    assert record.output_tokens_emitted == output.sum()
    for row in np.flatnonzero(record.status == FINISHED):
        assert len(times[row]) == world.trace.output_tokens[row]
        assert times[row][0] == record.first_token_ns[row]
        assert times[row][-1] == record.finish_ns[row]


@LAW
@given(worlds(BUILT_IN))
def test_prompt_tokens_are_prefilled_or_found_once_without_preemption(world: World) -> None:
    record = world.serve()
    prompt, _ = lengths(world, record)
    prefilled = record.iterations[:, 4].sum() + record.prefix_hit_tokens
    assert prefilled == prompt.sum() if not record.num_preemptions.any() else prefilled > prompt.sum()


@LAW
@given(worlds(BUILT_IN))
def test_no_token_before_its_time_and_the_clock_is_monotone(world: World) -> None:
    record = world.serve()
    served = record.status == FINISHED
    assert (record.arrival_ns <= record.first_scheduled_ns)[served].all()
    assert (record.first_scheduled_ns < record.first_token_ns)[served].all()
    for times in (record.token_times or {}).values():
        assert (np.diff(times) > 0).all()
    start, duration = record.iterations[:, 0], record.iterations[:, 1]
    assert (duration > 0).all()
    assert (start[1:] >= (start + duration)[:-1]).all()


@LAW
@given(worlds(BUILT_IN))
def test_limits_are_never_exceeded(world: World) -> None:
    record = world.serve("reference")
    decodes, prefills, tokens, used = record.iterations[:, [2, 3, 4, 6]].T
    assert (decodes + prefills <= world.params["max_batch_size"]).all()
    assert (used <= world.num_blocks).all()
    assert record.kv_peak_blocks <= world.num_blocks
    if "token_budget" in world.params:
        assert (decodes + tokens <= world.params["token_budget"]).all()


@LAW
@given(worlds(BUILT_IN))
def test_reserve_never_preempts(world: World) -> None:
    record = world.serve()
    if world.memory == "reserve" or world.policy == "static":
        assert not record.num_preemptions.any()


@LAW
@given(worlds(tuple(name for name in BUILT_IN if name != "static")))
def test_work_is_conserved(world: World) -> None:
    """The replica idles only between the last departure and the next arrival."""
    record = world.serve()
    present_from = np.sort(record.arrival_ns[record.status == FINISHED])
    start = record.iterations[:, 0]
    end = start + record.iterations[:, 1]
    for idle_from, idle_to in zip(end[:-1], start[1:], strict=True):
        if idle_to > idle_from:
            assert idle_to in present_from
            left = (record.finish_ns <= idle_from) | (record.finish_ns == UNSET_NS)
            assert left[record.arrival_ns < idle_to].all()


@LAW
@given(worlds(BUILT_IN))
def test_littles_law(world: World) -> None:
    """Time-average number in the system = arrival rate x mean time in it, exactly, in any run."""
    record = world.serve()
    served = record.status == FINISHED
    if not served.any():
        return
    arrivals, departures = record.arrival_ns[served], record.finish_ns[served]
    events = sorted([(t, 1) for t in arrivals.tolist()] + [(t, -1) for t in departures.tolist()])
    area, level, last = 0, 0, events[0][0]
    for time, change in events:
        area += level * (time - last)
        level, last = level + change, time
    assert area == (departures - arrivals).sum()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_policy_says_where_it_comes_from(name: str) -> None:
    cls = POLICIES.get(name)
    assert cls.source and cls.__doc__
