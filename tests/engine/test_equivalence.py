"""The fast engine (aggregates, exact jump) equals the reference, token by token to the nanosecond."""

import numpy as np
from hypothesis import given, settings

from sim.core.record import RunRecord
from tests.worlds import World, worlds


def facts(record: RunRecord) -> dict[str, object]:
    """All that a run says, but for how its iterations are grouped into rows."""
    return {
        "token_times": record.token_times,
        "first_scheduled": record.first_scheduled_ns.tolist(),
        "finish": record.finish_ns.tolist(),
        "max_tbt": record.max_tbt_ns.tolist(),
        "tbt": (record.tbt_ns.tolist(), record.tbt_counts.tolist()),
        "preemptions": record.num_preemptions.tolist(),
        "reasons": record.reasons,
        "iterations": record.num_iterations,
        "busy": record.busy_ns,
        "peak": record.kv_peak_blocks,
        "steady": (record.steady_requests, record.steady_output_tokens),
        "prefix": (record.prefix_query_tokens, record.prefix_hit_tokens),
        "waste": (record.padded_prefill_tokens, record.idle_slot_iterations),
    }


@settings(max_examples=400, deadline=None)
@given(worlds())
def test_fast_equals_reference(world: World) -> None:
    assert facts(world.serve("fast")) == facts(world.serve("reference"))


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_rows_of_a_jump_cover_the_iterations_they_stand_for(world: World) -> None:
    fast, reference = world.serve("fast").iterations, world.serve("reference").iterations
    repeats = fast[:, 8]
    first_rows = np.concatenate(([0], np.cumsum(repeats)))[: len(repeats)].astype(int)
    assert repeats.sum() == len(reference)
    assert np.array_equal(fast[:, [0, 2, 3, 4, 5, 6]], reference[first_rows][:, [0, 2, 3, 4, 5, 6]])
    ends = np.concatenate((first_rows[1:], [len(reference)])) - 1
    assert np.array_equal((fast[:, 0] + fast[:, 1]), (reference[:, 0] + reference[:, 1])[ends[: len(fast)]])


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_gaps_are_those_of_the_token_times(world: World) -> None:
    record = world.serve("fast")
    assert record.token_times is not None
    gaps = [np.diff(times) for times in record.token_times.values()]
    expanded = np.repeat(record.tbt_ns, record.tbt_counts)
    assert np.array_equal(np.sort(np.concatenate([*gaps, np.empty(0)])), expanded)
    for row, times in record.token_times.items():
        if len(times) > 1:
            assert record.max_tbt_ns[row] == np.diff(times).max()
