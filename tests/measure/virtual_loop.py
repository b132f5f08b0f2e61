"""An event loop whose clock jumps: real loopback sockets, no waiting, and no machine noise.

While anything is ready it runs at a standstill of its clock; when nothing is, the clock jumps to the
next timer. A server and its client in one such loop see exactly the times the server meant, so a test
can hold measured times to fractions of a percent on a busy machine.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_S = 0.0001
"""Real time given to the kernel to deliver loopback bytes before the clock jumps."""

STUCK_S = 5.0
"""Real time without an event or a timer after which a test fails rather than hangs."""


class _JumpingSelector(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(GRACE_S if timeout is not None else STUCK_S)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError(f"nothing happened for {STUCK_S} s and no timer is set")
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop on the jumping clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on a VirtualLoop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
