"""Watchdog: ends a policy call that never returns, so that a spinning policy is an error, not a hang."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from sim.core.errors import StalledError
from sim.engine.replica import Replica


@contextmanager
def time_limit(limit_s: float, message: str) -> Iterator[None]:
    """Raise StalledError(message) inside the block if it lasts longer; see `watched` for where."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: FrameType | None) -> None:
        raise StalledError(message)

    with _alarm(stop, limit_s):
        yield


CHECKS = 4
"""Looks within the limit: a call is ended between (CHECKS - 1)/CHECKS of the limit and the limit."""


@contextmanager
def watched(replica: Replica, limit_s: float | None) -> Iterator[None]:
    """Raise StalledError inside a policy call of `replica` that lasts longer than `limit_s`.

    Uses SIGALRM, so it watches only in the main thread and does nothing elsewhere or when limit_s
    is None. Real time never enters the results: it can only end a run.
    """
    if limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    seen_call, looks = -1, 0

    def look(signum: int, frame: FrameType | None) -> None:
        nonlocal seen_call, looks
        looks = looks + 1 if replica.in_policy and replica.policy_calls == seen_call else 0
        seen_call = replica.policy_calls
        if looks >= CHECKS:
            raise StalledError(f"the policy has not returned for {limit_s:g} s: it seems to loop")

    with _alarm(look, limit_s / CHECKS):
        yield


@contextmanager
def _alarm(handler: Callable[[int, FrameType | None], None], every_s: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, every_s, every_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
