"""Arrivals: the SimPy process that brings requests to the replica, each at its time.

Owns when a request arrives: by the trace's clock, as a closed loop (a completion releases the next)
or by sessions (a turn follows the completion of the one before). What happens then is the replica's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import heappop, heappush
from itertools import islice

import simpy
from simpy.events import URGENT

from sim.core.request import Request
from sim.core.trace import Trace
from sim.engine.clock import Clock, Delay


class Arrivals:
    """Delivers requests into an inbox that the replica empties at its decisions."""

    def __init__(
        self, env: Clock, trace: Trace, closed_loop: int | None = None, front_end_ns: int = 0
    ) -> None:
        self._env = env
        self._front_end_ns = front_end_ns
        """Between a request's arrival and its reaching the scheduler."""
        self._closed_loop = closed_loop
        self._requests = trace.requests()
        self._turns = _Turns(trace) if trace.session is not None and closed_loop is None else None
        self.inbox: list[Request] = []
        """What has arrived and was not taken yet."""
        self._later: list[tuple[int, int]] = []
        """Heap of (time, row) of released requests that are still to arrive."""
        self._next_of_trace_ns: int | None = None
        """Arrival of the trace's next request, once the process has looked at it."""
        self.next_ns: int | None = None
        """The next arrival known now; None if only a completion can bring one, or none is left."""
        self._bell: simpy.Event | None = None
        self._undelivered = len(trace)

    def process(self) -> Generator[simpy.Event, None, None]:
        """The SimPy process of the arrivals whose times are known beforehand."""
        front_end_ns, now_ns = self._front_end_ns, self._env.now
        for request in self._known_beforehand():
            reaches_ns = request.arrival_ns + front_end_ns
            if reaches_ns > now_ns:
                self._next_of_trace_ns = reaches_ns
                self._look_ahead()
                yield self._urgent(reaches_ns - now_ns)
                now_ns = reaches_ns
            self._deliver(request)
        self._next_of_trace_ns = None
        self._look_ahead()

    @property
    def exhausted(self) -> bool:
        """Whether every request has been taken."""
        return not (self._undelivered or self.inbox)

    def take(self, until_ns: int | None = None) -> list[Request]:
        """The requests that have arrived and were not taken yet, in (arrival, trace row) order.

        `until_ns` leaves those that arrived after it for later.
        """
        taken, self.inbox = self.inbox, []
        if until_ns is not None:
            last_ns = until_ns - self._front_end_ns
            self.inbox = [request for request in taken if request.arrival_ns > last_ns]
            taken = [request for request in taken if request.arrival_ns <= last_ns]
        if len(taken) > 1:
            taken.sort(key=_arrival_order)
        return taken

    def bell(self) -> simpy.Event:
        """An event that the next delivery triggers."""
        self._bell = simpy.Event(self._env)
        return self._bell

    def completed(self, row: int) -> None:
        """The request of trace row `row` has left the system now: release what waited for that."""
        if self._closed_loop is not None:
            following = next(self._requests, None)
            if following is not None:
                self._release(following, self._env.now)
        elif self._turns is not None:
            turn = self._turns.after(row)
            if turn is not None:
                following, think_ns = turn
                self._release(following, self._env.now + think_ns)

    def _known_beforehand(self) -> Iterator[Request]:
        if self._closed_loop is not None:
            at_once = islice(self._requests, self._closed_loop)
            return (request._replace(arrival_ns=0) for request in at_once)
        if self._turns is not None:
            return iter(self._turns.first_turns)
        return self._requests

    def _look_ahead(self) -> None:
        self.next_ns = self._next_of_trace_ns
        if self._later and (self.next_ns is None or self._later[0][0] < self.next_ns):
            self.next_ns = self._later[0][0]

    def _release(self, request: Request, arrival_ns: int) -> None:
        request = request._replace(arrival_ns=arrival_ns)
        reaches_ns = arrival_ns + self._front_end_ns
        if reaches_ns == self._env.now:
            self._deliver(request)
        else:
            heappush(self._later, (reaches_ns, request.row))
            self._look_ahead()
            self._env.process(self._arrive_later(request, reaches_ns))

    def _arrive_later(self, request: Request, reaches_ns: int) -> Generator[simpy.Event, None, None]:
        yield self._urgent(reaches_ns - self._env.now)
        heappop(self._later)
        self._look_ahead()
        self._deliver(request)

    def _urgent(self, delay_ns: int) -> Delay:
        """A delay that fires before every ordinary event of its instant.

        So a request arriving exactly at t is there for the decision made at t (design.md section 3),
        and no tie is decided by which event entered the heap first.
        """
        return Delay(self._env, delay_ns, URGENT)

    def _deliver(self, request: Request) -> None:
        self.inbox.append(request)
        self._undelivered -= 1
        if self._bell is not None:
            bell, self._bell = self._bell, None
            bell.succeed()


def _arrival_order(request: Request) -> tuple[int, int]:
    return request.arrival_ns, request.row


class _Turns:
    """Which turn of a session follows which, and after what think time."""

    def __init__(self, trace: Trace) -> None:
        assert trace.session is not None
        self._requests = list(trace.requests())
        self._think_ns = [0] * len(trace) if trace.think_ns is None else trace.think_ns.tolist()
        self._following: dict[int, int] = {}
        latest: dict[int, int] = {}
        self.first_turns: list[Request] = []
        for row, session in enumerate(trace.session.tolist()):
            if session in latest:
                self._following[latest[session]] = row
            else:
                self.first_turns.append(self._requests[row])
            latest[session] = row

    def after(self, row: int) -> tuple[Request, int] | None:
        """The turn after trace row `row` and its think time in ns; None after the last."""
        following = self._following.get(row)
        if following is None:
            return None
        return self._requests[following], self._think_ns[following]
