"""TokenLog: every token's time, kept only when asked for (memory O(tokens))."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sim.core.request import RequestState


class TokenLog:
    """Token times in ns by trace row, in order of emission."""

    def __init__(self) -> None:
        self.times: dict[int, list[int]] = {}

    def add(self, state: RequestState, end_ns: int) -> None:
        """One token of `state` at `end_ns`."""
        self.times.setdefault(state.row, []).append(end_ns)

    def add_all(self, states: Iterable[RequestState], ends_ns: Sequence[int]) -> None:
        """A token of each of `states` at each of `ends_ns`."""
        for state in states:
            self.times.setdefault(state.row, []).extend(ends_ns)
