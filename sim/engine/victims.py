"""Victims: which running request a preemption takes."""

from __future__ import annotations

from collections.abc import Callable

from sim.core.registry import Registry
from sim.core.request import RequestState

Running = dict[RequestState, None]
"""Running requests in admission order."""


def last_admitted(running: Running) -> RequestState:
    """The most recently admitted: it loses the least (vLLM)."""
    return next(reversed(running))


def longest(running: Running) -> RequestState:
    """The one that holds the most KV entries: it frees the most. Ties: the most recently admitted."""
    return max(running, key=lambda request: (_entries(request), request.admission))


def lowest_priority(running: Running) -> RequestState:
    """The largest priority number. Ties: the most recently admitted."""
    return max(running, key=lambda request: (request.priority, request.admission))


def _entries(request: RequestState) -> int:
    if request.first_token_ns is None:
        return request.prefilled_tokens
    return request.context_tokens - 1


VICTIMS: Registry[Callable[[Running], RequestState]] = Registry("victim")
for _rule in (last_admitted, longest, lowest_priority):
    VICTIMS.add(_rule.__name__, _rule)
