"""WaitingQueue: who waits, in which order; preempted requests stand in front."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from sim.core.request import RequestState


class WaitingQueue:
    """First come, first served: (arrival, trace row) order, preempted ones in front of all."""

    def __init__(self) -> None:
        self._queue: deque[RequestState] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def __contains__(self, state: object) -> bool:
        return state in self._queue

    def __iter__(self) -> Iterator[RequestState]:
        """In order; the request just yielded may be removed (admitted) before the next is asked for."""
        queue = self._queue
        place = 0
        while place < len(queue):
            state = queue[place]
            yield state
            if place < len(queue) and queue[place] is state:
                place += 1

    def add(self, state: RequestState) -> None:
        """A new arrival; arrivals come in order."""
        self._queue.append(state)

    def put_back(self, state: RequestState) -> None:
        """A preempted request, to the front."""
        self._queue.appendleft(state)

    def remove(self, state: RequestState) -> None:
        """Take `state` out; O(1) at the front."""
        if self._queue[0] is state:
            self._queue.popleft()
        else:
            self._queue.remove(state)
