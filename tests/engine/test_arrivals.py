"""When requests arrive: by the clock, in a closed loop, and as turns of sessions."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worlds import STANDARD, LinearCost, World, make_trace, serve, worlds

COST = LinearCost(base=10)


def test_a_request_arriving_exactly_at_a_decision_is_seen_by_it() -> None:
    record = serve([(0, 1, 3), (10, 1, 1), (21, 1, 1)], "continuous", COST)
    assert record.first_scheduled_ns.tolist() == [0, 10, 30]


def test_equal_arrivals_are_served_in_trace_order() -> None:
    record = serve([(0, 1, 1), (0, 1, 1), (0, 1, 1)], "continuous", COST, {"max_batch_size": 1})
    assert record.finish_ns.tolist() == [10, 20, 30]


@settings(max_examples=60, deadline=None)
@given(worlds(STANDARD), st.integers(1, 4), st.sampled_from(["fast", "reference"]))
def test_a_closed_loop_keeps_its_number_in_flight(world: World, concurrency: int, mode: str) -> None:
    record = world.serve(mode, closed_loop=concurrency)
    gone = np.where(record.finish_ns < 0, record.arrival_ns, record.finish_ns)
    assert (record.arrival_ns[:concurrency] == 0).all()
    for row, arrival in enumerate(record.arrival_ns.tolist()):
        if arrival > 0:
            assert arrival in gone
        in_flight = ((record.arrival_ns <= arrival) & (gone > arrival)).sum()
        assert in_flight <= concurrency
        assert row < concurrency or np.sort(gone)[row - concurrency] == arrival


def test_a_turn_arrives_its_think_time_after_the_completion_before() -> None:
    trace = make_trace(
        [(0, 1, 2), (0, 1, 1), (0, 1, 1), (3, 1, 1)],
        session=np.array([7, 7, 7, 8]),
        think_ns=np.array([0, 5, 0, 0]),
    )
    record = serve(trace, "continuous", COST)
    assert record.arrival_ns.tolist() == [0, 25, 35, 3]
    assert record.finish_ns.tolist() == [20, 35, 45, 20]


def test_a_rejected_turn_releases_the_next() -> None:
    trace = make_trace([(0, 1, 2), (0, 99, 1), (0, 1, 1)], session=np.array([7, 7, 7]))
    record = serve(trace, "continuous", COST, max_model_len=50)
    assert record.arrival_ns.tolist() == [0, 20, 20]
    assert record.reasons == {1: "prompt 99 + output 1 tokens exceed max_model_len 50"}
    assert record.finish_ns.tolist()[2] == 30


@settings(max_examples=100, deadline=None)
@given(worlds(STANDARD), st.integers(0, 40))
def test_a_front_end_delay_is_a_later_arrival_that_counts_from_the_earlier(world: World, delay: int) -> None:
    delayed = world.serve(front_end_ns=delay)
    shifted = dataclasses.replace(world.trace, arrival_ns=world.trace.arrival_ns + delay)
    later = dataclasses.replace(world, trace=shifted)
    if world.policy != "static" or not world.params["max_wait_s"]:
        assert delayed.token_times == later.serve().token_times
    assert delayed.arrival_ns.tolist() == world.trace.arrival_ns.tolist()


def test_a_cold_start_is_paid_once() -> None:
    class Cold(LinearCost):
        cold_start_ns = 100

    assert serve([(0, 1, 3)], "continuous", Cold(base=10)).token_times == {0: [110, 120, 130]}
