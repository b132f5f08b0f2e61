"""Ordering disciplines: each orders as it says, aging starves nobody, and results stay exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.errors import ConfigError
from sim.core.request import Request, RequestState
from sim.engine.ordering import ORDERS, FairShareQueue, KeyedQueue, Ordering
from tests.worlds import LinearCost, World, make_trace, serve, worlds

COST = LinearCost(base=10)
ONE_AT_A_TIME = {"max_batch_size": 1}


def state(row: int, arrival_ns: int = 0, **fields: Any) -> RequestState:
    return RequestState(Request(row, str(row), arrival_ns, 4, fields.pop("output_tokens", 3), **fields))


def finish_order(rows: list[tuple[int, int, int]], ordering: Ordering, **columns: Any) -> list[int]:
    record = serve(make_trace(rows, **columns), "continuous", COST, ONE_AT_A_TIME, ordering=ordering)
    return np.argsort(record.finish_ns, kind="stable").tolist()


def test_priority_serves_the_smallest_number_first() -> None:
    rows = [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1)]
    priority = np.array([0, 5, 1, 5])
    assert finish_order(rows, Ordering("priority"), priority=priority) == [0, 2, 1, 3]


def test_shortest_predicted_with_an_oracle_serves_the_shortest_first() -> None:
    rows = [(0, 1, 1), (1, 1, 9), (2, 1, 2), (3, 1, 5)]
    assert finish_order(rows, Ordering("shortest_predicted", oracle=True)) == [0, 2, 3, 1]


def test_shortest_predicted_never_knows_the_true_length_by_default() -> None:
    with pytest.raises(ConfigError, match="prediction_noise"):
        finish_order([(0, 1, 1)], Ordering("shortest_predicted"))


def test_a_noisy_prediction_depends_on_the_seed_and_the_row_alone() -> None:
    rows = [(0, 1, 1)] + [(1, 1, 10)] * 30
    orders = [
        finish_order(rows, Ordering("shortest_predicted", prediction_noise=0.5, seed=seed))
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_earliest_deadline_uses_the_objective_of_the_class() -> None:
    rows = [(0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1)]
    ordering = Ordering("earliest_deadline", ttft_slo_ns={"chat": 10, "batch": 1000})
    assert finish_order(rows, ordering, slo_class=["chat", "batch", None, "chat"]) == [0, 3, 1, 2]
    with pytest.raises(ConfigError, match=r"slo\.ttft_s"):
        finish_order(rows, Ordering("earliest_deadline"))


def test_fair_share_alternates_between_a_flood_and_a_trickle() -> None:
    rows = [(0, 4, 2)] * 6 + [(1, 4, 2)] * 2
    clients = ["flood"] * 6 + ["trickle"] * 2
    assert finish_order(rows, Ordering("fair_share"), client=clients) == [0, 6, 1, 7, 2, 3, 4, 5]


def test_a_client_that_paused_does_not_save_up_service() -> None:
    """`late` comes after `early` was served much; it starts level, and does not shut `early` out."""
    rows = [(0, 4, 2)] * 8 + [(65, 4, 2)] * 4
    clients = ["early"] * 8 + ["late"] * 4
    order = finish_order(rows, Ordering("fair_share"), client=clients)
    assert order == [0, 1, 2, 3, 8, 4, 9, 5, 10, 6, 11, 7]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60)), max_size=25), st.data())
def test_a_keyed_queue_yields_aged_requests_by_arrival_then_the_others_by_key(
    items: list[tuple[int, int]], data: st.DataObject
) -> None:
    queue = KeyedQueue(lambda s: s.priority, aging_ns=30)
    waiting = []
    for row, (priority, arrival) in enumerate(sorted(items, key=lambda item: item[1])):
        waiting.append(state(row, arrival, priority=priority))
        queue.add(waiting[-1])
    now = data.draw(st.integers(0, 100))
    queue.begin(now)
    expected = [s for s in waiting if s.arrival_ns + 30 <= now]
    young = [s for s in waiting if s.arrival_ns + 30 > now]
    expected += sorted(young, key=lambda s: (s.priority, s.arrival_ns, s.row))
    seen = []
    for request in queue:
        seen.append(request)
        if data.draw(st.booleans()):
            queue.remove(request)
            waiting.remove(request)
    assert seen == expected
    assert len(queue) == len(waiting)
    assert set(queue) == set(waiting)
    changes = [s.arrival_ns + 30 for s in waiting if s.arrival_ns + 30 > now]
    assert queue.reorders_at_ns == min(changes, default=None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=25), st.data())
def test_a_fair_queue_passes_over_the_refused_and_loses_nobody(
    items: list[tuple[str, int]], data: st.DataObject
) -> None:
    queue = FairShareQueue(aging_ns=None)
    for row, (client, arrival) in enumerate(sorted(items, key=lambda item: item[1])):
        queue.add(state(row, arrival, client=client))
    waiting, seen = set(queue), []
    for request in queue:
        seen.append(request)
        if data.draw(st.booleans()):
            queue.remove(request)
    assert len(seen) == len(set(seen)) == len(items)
    assert set(seen) == waiting


ORDERINGS: list[Callable[[], Ordering]] = [
    lambda: Ordering("priority", aging_ns=40),
    lambda: Ordering("shortest_predicted", aging_ns=40, prediction_noise=0.7),
    lambda: Ordering("earliest_deadline", ttft_slo_ns={None: 50}),
    lambda: Ordering("fair_share", aging_ns=400),
]


@settings(max_examples=300, deadline=None)
@given(worlds(), st.sampled_from(ORDERINGS), st.sampled_from(["last_admitted", "longest", "lowest_priority"]))
def test_fast_equals_reference_under_any_order_and_victim(
    world: World, ordering: Callable[[], Ordering], victim: str
) -> None:
    rows = range(len(world.trace))
    object.__setattr__(world.trace, "priority", np.array([row % 3 for row in rows]))
    object.__setattr__(world.trace, "client", [("a", "b", None)[row % 3] for row in rows])
    fast, reference = (
        world.serve(mode, ordering=ordering(), victim=victim) for mode in ("fast", "reference")
    )
    assert fast.token_times == reference.token_times
    assert fast.num_preemptions.tolist() == reference.num_preemptions.tolist()
    assert fast.reasons == reference.reasons
    finished = {row for row, times in (fast.token_times or {}).items() if len(times)}
    assert finished | set(fast.reasons) == set(rows)


def test_aging_starves_nobody() -> None:
    """An unimportant request in a stream of important ones that alone fill the server."""
    rows = [(0, 1, 1), (0, 1, 1)] + [(10 * k, 1, 1) for k in range(1, 60)]
    priority = np.array([0, 9] + [0] * 59)

    def wait(aging_ns: int | None) -> int:
        ordering = Ordering("priority", aging_ns=aging_ns)
        trace = make_trace(rows, priority=priority)
        record = serve(trace, "continuous", COST, ONE_AT_A_TIME, ordering=ordering)
        return int(record.first_scheduled_ns[1])

    assert wait(None) == 600
    assert wait(100) == 100


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 300), st.lists(st.integers(0, 9), min_size=5, max_size=60))
def test_with_aging_the_wait_is_bounded_by_the_older_work(aging_ns: int, priorities: list[int]) -> None:
    """Once aged, a request waits only for those that arrived before it and the one in service."""
    rows = [(7 * row, 1, 1) for row in range(len(priorities))]
    trace = make_trace(rows, priority=np.array(priorities))
    ordering = Ordering("priority", aging_ns=aging_ns)
    record = serve(trace, "continuous", COST, ONE_AT_A_TIME, ordering=ordering)
    for row, arrival in enumerate(record.arrival_ns.tolist()):
        older = int((record.first_scheduled_ns[:row] >= arrival).sum())
        assert record.first_scheduled_ns[row] <= arrival + aging_ns + 10 * (older + 1)


def test_every_order_explains_itself() -> None:
    assert all(ORDERS.get(name).__doc__ for name in ORDERS)


def test_a_client_is_charged_for_what_ran_however_often_the_queue_was_looked_at() -> None:
    """A jump looks less often than single iterations; who comes next must not depend on that."""
    arrivals = [0, 0, 0, 0, 0, 5, 60, 65, 80, 85]
    prompts, outputs = [1, 1, 2, 1, 1, 1, 1, 1, 1, 1], [1, 3, 2, 1, 13, 1, 10, 1, 1, 8]
    rows = list(zip(arrivals, prompts, outputs, strict=True))
    trace = make_trace(rows, client=[("a", "b", None)[row % 3] for row in range(len(rows))])
    params = {"max_batch_size": 1, "token_budget": 2}
    fast, reference = (
        serve(trace, "vllm_v1", LinearCost(base=5), params, mode=mode, ordering=Ordering("fair_share"))
        for mode in ("fast", "reference")
    )
    assert fast.token_times == reference.token_times
