"""Decodes: the requests that decode, one by one. The plain version; epochs.py is the fast one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Protocol

from sim.core.batch import Batch, Chunk
from sim.core.request import RequestState
from sim.engine.gaps import GapLog
from sim.engine.jump import Jump
from sim.engine.tokens import TokenLog

by_admission = attrgetter("admission")


class Decodes(Protocol):
    """The decoding requests of a replica, their progress, and the gaps between their tokens.

    Contexts and blocks are those of the next decode. `advance_*` return the requests that have
    produced their last token, in admission order; they are still members until removed.
    """

    @property
    def members(self) -> Mapping[RequestState, None]:
        """The keys, in the order in which they joined; a mapping for its speed."""
        ...

    def in_admission_order(self) -> list[RequestState]: ...
    def add(self, state: RequestState) -> None:
        """`state` has produced a token at `state._last_token_ns` and decodes from now on."""
        ...

    def remove(self, state: RequestState) -> None:
        """Take `state` out; its own fields are up to date afterwards."""
        ...

    def batch(self, chunks: tuple[Chunk, ...]) -> Batch:
        """All members as decodes, beside `chunks`; context max and min only if `spread` is kept."""
        ...

    def needs_block(self, state: RequestState) -> bool:
        """Whether the entry its next decode writes starts a new block."""
        ...

    def blocks_to_grow(self, first: int = 0, iterations: int = 1) -> int:
        """Blocks all members need in iterations first, ..., first + iterations - 1 from now."""
        ...

    def iterations_to_completion(self) -> int:
        """Iterations of all members until the first of them is finished."""
        ...

    def advance_all(self, end_ns: int, jump: Jump | None = None) -> list[RequestState]:
        """Every member yields a token at `end_ns`, or one in each iteration of `jump`, which ends then.

        None finishes before that.
        """
        ...

    def advance_some(self, states: Iterable[RequestState], end_ns: int) -> list[RequestState]:
        """Each of `states` yields a token at `end_ns`."""
        ...


class PlainDecodes:
    """Every request's progress is kept and moved by itself: O(members) an iteration."""

    def __init__(
        self, block_size: int, gaps: GapLog, tokens: TokenLog | None, spread: bool
    ) -> None:
        self.members: dict[RequestState, None] = {}
        self._block_size = block_size
        self._spread = spread
        self._gaps = gaps
        self._tokens = tokens

    def in_admission_order(self) -> list[RequestState]:
        return sorted(self.members, key=by_admission)

    def add(self, state: RequestState) -> None:
        self.members[state] = None

    def remove(self, state: RequestState) -> None:
        del self.members[state]

    def batch(self, chunks: tuple[Chunk, ...]) -> Batch:
        contexts = [state.context_tokens for state in self.members]
        if not self._spread:
            return Batch(len(contexts), sum(contexts), 0, 0, chunks)
        return Batch(len(contexts), sum(contexts), max(contexts), min(contexts), chunks)

    def needs_block(self, state: RequestState) -> bool:
        return (state.context_tokens - 1) % self._block_size == 0

    def blocks_to_grow(self, first: int = 0, iterations: int = 1) -> int:
        return sum(
            (state.context_tokens - 1 + ahead) % self._block_size == 0
            for state in self.members
            for ahead in range(first, first + iterations)
        )

    def iterations_to_completion(self) -> int:
        return min(state._output_tokens - state._generated for state in self.members)

    def advance_all(self, end_ns: int, jump: Jump | None = None) -> list[RequestState]:
        finished: list[RequestState] = []
        for each_end_ns in [end_ns] if jump is None else jump.ends_ns():
            finished = self.advance_some(self.members, each_end_ns)
        return finished

    def advance_some(self, states: Iterable[RequestState], end_ns: int) -> list[RequestState]:
        finished = []
        for state in states:
            assert state._last_token_ns is not None
            gap = end_ns - state._last_token_ns
            self._gaps.add(gap, 1)
            state._max_tbt_ns = max(gap, state._max_tbt_ns or 0)
            state._last_token_ns = end_ns
            state._generated += 1
            if self._tokens is not None:
                self._tokens.add(state, end_ns)
            if state._generated == state._output_tokens:
                finished.append(state)
        return sorted(finished, key=by_admission)
