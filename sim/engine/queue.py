"""WaitingQueue: who waits, and in which order; preempted requests stand in front of all.

The plain queue is first come, first served. ordering.py has the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from sim.core.request import RequestState


class Queue(Protocol):
    """The waiting requests in the order in which a policy should consider them."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[RequestState]:
        """In order; the request just yielded may be admitted before the next is asked for."""
        ...

    def add(self, state: RequestState) -> None:
        """A new arrival; arrivals come in (arrival, trace row) order."""
        ...

    def put_back(self, state: RequestState) -> None:
        """A preempted request, to the front."""
        ...

    def remove(self, state: RequestState) -> None:
        """`state` has been admitted."""
        ...

    def left(self, state: RequestState) -> None:
        """`state`, admitted before, runs no more: finished or preempted."""
        ...

    reads_clock: bool
    """Whether `begin` has to be called."""

    def begin(self, now_ns: int) -> None:
        """The decision made at `now_ns` starts."""
        ...

    @property
    def is_steady(self) -> bool:
        """Whether the order stays as it is until `reorders_at_ns` while nobody comes or goes."""
        ...

    @property
    def reorders_at_ns(self) -> int | None:
        """When time alone next changes the order; None if it never does."""
        ...


class WaitingQueue(deque[RequestState]):
    """First come, first served: (arrival, trace row) order."""

    is_steady = True
    reads_clock = False
    reorders_at_ns = None

    add = deque.append
    put_back = deque.appendleft

    def __iter__(self) -> Iterator[RequestState]:
        place = 0
        while place < len(self):
            state = self[place]
            yield state
            if place < len(self) and self[place] is state:
                place += 1

    def left(self, state: RequestState) -> None:
        pass

    def begin(self, now_ns: int) -> None:
        pass
