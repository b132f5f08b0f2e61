"""The event log: the same in both modes, changes no result, and holds every chunk and token."""

import dataclasses

import numpy as np
from hypothesis import given, settings

from sim.core.events import Events
from tests.worlds import LinearCost, World, serve, worlds


def tables(events: Events | None) -> dict[str, list[object]]:
    assert events is not None
    fields = {field.name: getattr(events, field.name) for field in dataclasses.fields(events)}
    return {name: value.tolist() for name, value in fields.items() if isinstance(value, np.ndarray)}


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_fast_and_reference_write_the_same_events(world: World) -> None:
    fast, reference = (world.serve(mode, record_events=True) for mode in ("fast", "reference"))
    assert tables(fast.events) == tables(reference.events)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_recording_events_changes_no_result(world: World) -> None:
    plain, noted = world.serve(), world.serve(record_events=True)
    assert plain.token_times == noted.token_times
    assert np.array_equal(plain.iterations, noted.iterations)
    assert plain.events is None


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_events_hold_the_iterations(world: World) -> None:
    record = world.serve("reference", record_events=True)
    events = record.events
    assert events is not None
    assert np.array_equal(events.start_ns(), record.iterations[:, 0])
    assert np.array_equal(events.end_ns - events.start_ns(), record.iterations[:, 1])
    assert np.array_equal(events.num_decodes, record.iterations[:, 2])
    assert events.chunks[:, 2].sum() == record.iterations[:, 4].sum()


def test_by_hand_two_requests_and_one_slot() -> None:
    cost = LinearCost(base=10, per_prefill_token=1)
    rows = [(0, 4, 3), (5, 6, 1)]
    record = serve(rows, "continuous", cost, {"max_batch_size": 1}, record_events=True)
    events = tables(record.events)
    # Request 0: prefill until 14, decodes until 24 and 34; then request 1 until 50.
    assert events["end_ns"] == [14, 24, 34, 50]
    assert events["num_decodes"] == [0, 1, 1, 0]
    assert events["chunks"] == [[0, 0, 4, 0], [3, 1, 6, 0]]
    assert events["seen"] == [[0, 0, 0], [1, 1, 14]]
    assert events["admissions"] == [[0, 0, 0, 0], [3, 1, 0, 0]]
    # Iterations 1 and 2: request 1 is refused for want of a slot (1); then nobody waits.
    assert events["refusals"] == [[1, 1, 1, 0], [3, -1, 0, 0]]
    assert events["preemptions"] == events["passed_over"] == events["decode_parts"] == []
