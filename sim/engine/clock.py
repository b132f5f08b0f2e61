"""Clock: SimPy's environment with integer nanoseconds, and nothing else changed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import simpy
from simpy.events import NORMAL, EventPriority


class Clock(simpy.Environment):
    """All delays given to it are int ns, so `now` is an int: sums of times are exact in any order."""

    if TYPE_CHECKING:
        now: int

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def num_events(self) -> int:
        """Events scheduled so far: SimPy numbers them."""
        return next(copy(self._eid))


class Delay(simpy.Event):
    """simpy.Timeout of int ns >= 0, without a value, and with a priority among the events of its instant."""

    def __init__(self, clock: Clock, delay_ns: int, priority: EventPriority = NORMAL) -> None:
        # As simpy.Timeout does: not through Event.__init__, since there is one for every decision.
        self.env = clock
        self.callbacks = []
        self._value = None
        self._ok = True
        clock.schedule(self, priority, delay_ns)
