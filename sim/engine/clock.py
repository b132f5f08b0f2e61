"""Clock: SimPy's environment with integer nanoseconds, and nothing else changed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import simpy


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
