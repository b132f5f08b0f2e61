"""Ordering disciplines: queues other than first come, first served, for any policy.

Each has its own idea of who is next; preempted requests stay in front, and with aging a request that
has waited long enough goes before all that have not, so that none starves.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from sim.core.errors import ConfigError
from sim.core.registry import Registry
from sim.core.request import RequestState
from sim.core.rng import stream
from sim.engine.queue import Queue, WaitingQueue

Key = Callable[[RequestState], float]


@dataclass(frozen=True)
class Ordering:
    """Which discipline, and what it needs to know."""

    name: str = "fcfs"
    aging_ns: int | None = None
    """Wait after which a request goes before every younger one; None lets it wait for ever."""
    prediction_noise: float | None = None
    """Standard deviation of the log of predicted over true output length."""
    ttft_slo_ns: Mapping[str | None, int] | None = None
    """TTFT objective by SLO class; None is the class of requests without one."""
    oracle: bool = False
    seed: int = 0


class AgedFirst:
    """Who has waited `aging_ns` or longer, oldest first. Asked in order of arrival."""

    def __init__(self, aging_ns: int | None) -> None:
        self._aging_ns = aging_ns
        self._by_arrival: deque[RequestState] = deque()
        """Waiting requests; those that left from the middle are skipped until they are in front."""
        self.waiting: dict[RequestState, None] = {}
        self.now_ns = 0

    def add(self, state: RequestState) -> None:
        self.waiting[state] = None
        self._by_arrival.append(state)

    def remove(self, state: RequestState) -> None:
        del self.waiting[state]
        while self._by_arrival and self._by_arrival[0] not in self.waiting:
            self._by_arrival.popleft()

    def holds(self, state: RequestState) -> bool:
        """Whether `state` is old enough."""
        return self._aging_ns is not None and state.arrival_ns + self._aging_ns <= self.now_ns

    def __iter__(self) -> Iterator[RequestState]:
        by_arrival, place = self._by_arrival, 0
        while place < len(by_arrival):
            state = by_arrival[place]
            if state in self.waiting:
                if not self.holds(state):
                    return
                yield state
            if place < len(by_arrival) and by_arrival[place] is state:
                place += 1

    @property
    def next_ns(self) -> int | None:
        """When the next one grows old enough; None if none will."""
        if self._aging_ns is None:
            return None
        young = (s for s in self._by_arrival if s in self.waiting and not self.holds(s))
        first = next(young, None)
        return None if first is None else first.arrival_ns + self._aging_ns


class OrderedQueue:
    """What all disciplines share: the preempted in front, then the aged, then the others in order.

    A subclass keeps the others (`_enter`, `_exit`) and yields them (`_in_order`), aged ones included.
    """

    is_steady = True
    reads_clock = True

    def __init__(self, aging_ns: int | None) -> None:
        self._front: deque[RequestState] = deque()
        self._aged = AgedFirst(aging_ns)

    def __len__(self) -> int:
        return len(self._front) + len(self._aged.waiting)

    def __bool__(self) -> bool:
        return bool(self._front or self._aged.waiting)

    def __iter__(self) -> Iterator[RequestState]:
        yield from list(self._front)
        yield from self._aged
        for state in self._in_order():
            if not self._aged.holds(state):
                yield state

    def add(self, state: RequestState) -> None:
        self._enter(state)
        self._aged.add(state)

    def put_back(self, state: RequestState) -> None:
        self._front.appendleft(state)

    def remove(self, state: RequestState) -> None:
        if state in self._aged.waiting:
            self._aged.remove(state)
            self._exit(state)
        else:
            self._front.remove(state)

    def left(self, state: RequestState) -> None:
        pass

    def begin(self, now_ns: int) -> None:
        self._aged.now_ns = now_ns

    @property
    def reorders_at_ns(self) -> int | None:
        return self._aged.next_ns

    def _enter(self, state: RequestState) -> None:
        raise NotImplementedError

    def _exit(self, state: RequestState) -> None:
        raise NotImplementedError

    def _in_order(self) -> Iterator[RequestState]:
        raise NotImplementedError


class KeyedQueue(OrderedQueue):
    """Smallest key first (ties: arrival, trace row); the key is fixed at arrival."""

    def __init__(self, key: Key, aging_ns: int | None) -> None:
        super().__init__(aging_ns)
        self._key = key
        self._sorted: list[tuple[float, int, int, RequestState]] = []
        self._keys: dict[RequestState, float] = {}

    def _enter(self, state: RequestState) -> None:
        key = self._keys[state] = self._key(state)
        insort(self._sorted, (key, state.arrival_ns, state.row, state))

    def _exit(self, state: RequestState) -> None:
        place = bisect_left(self._sorted, (self._keys.pop(state), state.arrival_ns, state.row))
        del self._sorted[place]

    def _in_order(self) -> Iterator[RequestState]:
        place = 0
        while place < len(self._sorted):
            entry = self._sorted[place]
            yield entry[-1]
            if place < len(self._sorted) and self._sorted[place] is entry:
                place += 1


class FairShareQueue(OrderedQueue):
    """The client served least goes first; first come, first served among its requests.

    Service is counted in tokens: the prompt at its first admission, and each output token twice. A
    client that comes back after a pause starts no lower than those that wait. Source: the Virtual
    Token Counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024).
    """

    is_steady = False
    PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2

    def __init__(self, aging_ns: int | None) -> None:
        super().__init__(aging_ns)
        self._service: dict[str | None, int] = {}
        self._clients: dict[str | None, dict[RequestState, None]] = {}
        """Waiting requests in arrival order by client; no client without any."""
        self._charged: dict[RequestState, int] = {}
        """Output tokens charged so far, by running request."""
        self._last_served: str | None = None

    def remove(self, state: RequestState) -> None:
        super().remove(state)
        if not state.num_preemptions:
            self._service[state.client] += self.PROMPT_WEIGHT * state.prompt_tokens
        self._charged[state] = state.generated_tokens
        self._last_served = state.client

    def left(self, state: RequestState) -> None:
        self._charge(state)
        del self._charged[state]

    def _enter(self, state: RequestState) -> None:
        client = state.client
        if client not in self._clients:
            # How often a policy has looked at the queue since must not matter to the floor.
            self._charge_running()
            floor = min((self._service[other] for other in self._clients), default=None)
            if floor is None:
                floor = self._service.get(self._last_served, 0)
            self._service[client] = max(self._service.get(client, 0), floor)
            self._clients[client] = {}
        self._clients[client][state] = None

    def _exit(self, state: RequestState) -> None:
        requests = self._clients[state.client]
        del requests[state]
        if not requests:
            del self._clients[state.client]

    def _in_order(self) -> Iterator[RequestState]:
        self._charge_running()
        passed: dict[str | None, int] = {}
        while True:
            heads = [
                (self._service[client], head.arrival_ns, head.row, head)
                for client, requests in self._clients.items()
                if (head := next(islice(requests, passed.get(client, 0), None), None)) is not None
            ]
            if not heads:
                return
            head = min(heads)[-1]
            yield head
            if head in self._clients.get(head.client, ()):
                passed[head.client] = passed.get(head.client, 0) + 1

    def _charge_running(self) -> None:
        for state in self._charged:
            self._charge(state)

    def _charge(self, state: RequestState) -> None:
        generated = state.generated_tokens
        self._service[state.client] += self.OUTPUT_WEIGHT * (generated - self._charged[state])
        self._charged[state] = generated


def _shortest_predicted(ordering: Ordering) -> Queue:
    """Shortest predicted output first."""
    noise = ordering.prediction_noise or 0.0
    if not noise and not ordering.oracle:
        raise ConfigError(
            "policy.order: shortest_predicted without prediction_noise would know every true output "
            "length; state a prediction_noise > 0, or set policy.oracle: true"
        )

    def predicted(state: RequestState) -> float:
        draw = stream(ordering.seed, f"prediction/{state.row}").standard_normal()
        return state._output_tokens * math.exp(noise * float(draw))

    return KeyedQueue(predicted, ordering.aging_ns)


def _priority(ordering: Ordering) -> Queue:
    """Smallest priority number first, as in vLLM."""
    return KeyedQueue(lambda state: state.priority, ordering.aging_ns)


def _earliest_deadline(ordering: Ordering) -> Queue:
    """Earliest arrival + TTFT objective first; requests without an objective last."""
    objectives = ordering.ttft_slo_ns
    if not objectives:
        raise ConfigError("policy.order: earliest_deadline needs slo.ttft_s, or one by SLO class")

    def deadline(state: RequestState) -> float:
        objective = objectives.get(state.slo_class, objectives.get(None))
        return float("inf") if objective is None else state.arrival_ns + objective

    return KeyedQueue(deadline, ordering.aging_ns)


def _fair_share(ordering: Ordering) -> Queue:
    """Least served client first."""
    return FairShareQueue(ordering.aging_ns)


def _fcfs(ordering: Ordering) -> Queue:
    """First come, first served."""
    return WaitingQueue()


ORDERS: Registry[Callable[[Ordering], Queue]] = Registry("order")
ORDERS.add("fcfs", _fcfs)
ORDERS.add("shortest_predicted", _shortest_predicted)
ORDERS.add("priority", _priority)
ORDERS.add("earliest_deadline", _earliest_deadline)
ORDERS.add("fair_share", _fair_share)
