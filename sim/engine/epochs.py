"""EpochDecodes: the decoding requests as aggregates, so that an iteration costs O(changes).

While all members decode together, one counter (the epoch) moves them all: a member's progress is
what it had when it joined plus the epochs since. Sums, the next completion and the members about to
cross a block boundary are kept as the members come and go. Equal to decodes.PlainDecodes, call by
call (tests/engine/test_decodes.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from sim.core.batch import Batch, Chunk, make
from sim.core.request import RequestState
from sim.engine.decodes import by_admission
from sim.engine.gaps import GapLog
from sim.engine.jump import Jump
from sim.engine.peaks import RecentPeaks
from sim.engine.tokens import TokenLog

NEVER = 1 << 62
"""An epoch that no run reaches."""

Ranked = list[tuple[int, int, RequestState]]


class EpochDecodes:
    """See Decodes for the contract. `epoch` counts the iterations in which all members decoded.

    A *fresh* member has got its last token by itself (its prefill, or a decode among some), so its
    next gap is its own; all others got theirs at `_last_end_ns`, so their next gap is one weighted
    sample.
    """

    __slots__ = (
        "_block_size", "_boundary", "_context_offset", "_due", "_due_epochs", "_entries", "_epoch",
        "_fresh", "_gaps", "_last_end_ns", "_longest", "_next_due", "_peaks", "_shortest", "_spread",
        "_tokens", "members",
    )  # fmt: skip

    def __init__(
        self, block_size: int, gaps: GapLog, tokens: TokenLog | None, spread: bool
    ) -> None:
        self.members: dict[RequestState, None] = {}
        self._spread = spread
        self._block_size = block_size
        self._gaps = gaps
        self._tokens = tokens
        self._fresh: dict[RequestState, None] = {}
        self._epoch = 0
        self._last_end_ns = 0
        self._context_offset = 0
        """Sum over members of (context of the next decode - epoch)."""
        self._boundary = [0] * block_size
        """Members by the epoch, mod block_size, whose decode starts a new block."""
        self._due: dict[int, dict[RequestState, None]] = {}
        """Members by the epoch at which they finish; _due_epochs is a heap of its keys."""
        self._due_epochs: list[int] = []
        self._next_due = NEVER
        """The epoch of the next completion."""
        self._longest: Ranked = []
        self._shortest: Ranked = []
        """Heaps of (context - epoch); an entry that no longer matches its member is stale."""
        self._entries = 0
        """Heap entries so far: makes every one comparable."""
        self._peaks = RecentPeaks()

    def generated_tokens(self, state: RequestState) -> int:
        return state._generated + self._epoch - state._join_epoch

    def last_token_ns(self, state: RequestState) -> int | None:
        return state._last_token_ns if state in self._fresh else self._last_end_ns

    def in_admission_order(self) -> list[RequestState]:
        return sorted(self.members, key=by_admission)

    def add(self, state: RequestState) -> None:
        self.members[state] = None
        state._pool = self
        state._join_epoch = self._epoch
        self._enter(state)

    def remove(self, state: RequestState) -> None:
        self._leave(state)
        if state in self._fresh:
            del self._fresh[state]
        else:
            self._fold_peak(state)
            state._last_token_ns = self._last_end_ns
        state._generated += self._epoch - state._join_epoch
        del self.members[state]
        state._pool = None

    def batch(self, chunks: tuple[Chunk, ...]) -> Batch:
        count, epoch = len(self.members), self._epoch
        if not self._spread:
            return make(Batch, (count, self._context_offset + count * epoch, 0, 0, chunks))
        return Batch(
            count,
            self._context_offset + count * epoch,
            self._extreme(self._longest, -1) + epoch,
            self._extreme(self._shortest, 1) + epoch,
            chunks,
        )

    def needs_block(self, state: RequestState) -> bool:
        return (state.context_tokens - 1) % self._block_size == 0

    def blocks_to_grow(self, first: int = 0, iterations: int = 1) -> int:
        size = self._block_size
        start = (self._epoch + first) % size
        if iterations == 1:
            return self._boundary[start]
        cycles, rest = divmod(iterations, size)
        need = cycles * len(self.members) + sum(self._boundary[start : start + rest])
        if start + rest > size:
            need += sum(self._boundary[: start + rest - size])
        return need

    def iterations_to_completion(self) -> int:
        return self._next_due - self._epoch

    def advance_all(self, end_ns: int, jump: Jump | None = None) -> list[RequestState]:
        if self._tokens is not None:
            self._tokens.add_all(self.members, [end_ns] if jump is None else jump.ends_ns())
        self._epoch += 1
        fresh = self._fresh
        first_end_ns = end_ns if jump is None else jump.first_end_ns
        veterans = len(self.members) - len(fresh)
        if veterans:
            gap = first_end_ns - self._last_end_ns
            self._gaps.add(gap, veterans)
            self._peaks.push(self._epoch, gap)
        if fresh:
            self._advance_fresh(first_end_ns)
        if jump is not None:
            self._advance_later(jump)
        self._last_end_ns = end_ns
        if self._epoch < self._next_due:
            return []
        return sorted(self._due[self._epoch], key=by_admission)

    def advance_some(self, states: Iterable[RequestState], end_ns: int) -> list[RequestState]:
        finished = []
        for state in states:
            last_ns = self.last_token_ns(state)
            assert last_ns is not None
            self._leave(state)
            self._fold_peak(state)
            self._record_own_gap(state, end_ns - last_ns)
            state._generated += 1
            self._enter(state)
            state._last_token_ns = end_ns
            if self._tokens is not None:
                self._tokens.add(state, end_ns)
            if self.generated_tokens(state) == state._output_tokens:
                finished.append(state)
        return sorted(finished, key=by_admission)

    def _advance_fresh(self, end_ns: int) -> None:
        """Their first gap with all others; afterwards they are not fresh."""
        for state in self._fresh:
            assert state._last_token_ns is not None
            self._record_own_gap(state, end_ns - state._last_token_ns)
            state._veteran_from = self._epoch + 1
        self._fresh.clear()

    def _advance_later(self, jump: Jump) -> None:
        """The iterations after the first: by then nobody is fresh, and gaps are durations."""
        self._epoch += jump.iterations - 1
        self._gaps.add_run(jump.later_ns, len(self.members))
        self._peaks.push(self._epoch, jump.longest_ns)

    def _record_own_gap(self, state: RequestState, gap_ns: int) -> None:
        self._gaps.add(gap_ns, 1)
        if state._max_tbt_ns is None or gap_ns > state._max_tbt_ns:
            state._max_tbt_ns = gap_ns

    def _fold_peak(self, state: RequestState) -> None:
        """Take the gaps that `state` shared with others into its own maximum."""
        if state in self._fresh:
            return
        peak = self._peaks.since(state._veteran_from)
        if state._max_tbt_ns is None or peak > state._max_tbt_ns:
            state._max_tbt_ns = peak

    def _enter(self, state: RequestState) -> None:
        """Count `state`, whose last token is its own, in every aggregate."""
        self._fresh[state] = None
        behind = state._generated - state._join_epoch
        offset = state.prompt_tokens + behind
        self._context_offset += offset
        # The entries before the decode of epoch e are offset - 1 + e.
        self._boundary[(1 - offset) % self._block_size] += 1
        due = state._output_tokens - behind
        group = self._due.get(due)
        if group is None:
            self._due[due] = {state: None}
            heappush(self._due_epochs, due)
        else:
            group[state] = None
        if due < self._next_due:
            self._next_due = due
        if not self._spread:
            return
        self._entries += 1
        heappush(self._longest, (-offset, self._entries, state))
        heappush(self._shortest, (offset, self._entries, state))

    def _leave(self, state: RequestState) -> None:
        behind = state._generated - state._join_epoch
        offset = state.prompt_tokens + behind
        self._context_offset -= offset
        self._boundary[(1 - offset) % self._block_size] -= 1
        due = state._output_tokens - behind
        group = self._due[due]
        del group[state]
        if not group and due == self._next_due:
            self._next_due = self._first_due()

    def _first_due(self) -> int:
        """The first epoch at which a member finishes; groups emptied before it are dropped."""
        due, epochs = self._due, self._due_epochs
        while epochs:
            if due[epochs[0]]:
                return epochs[0]
            del due[heappop(epochs)]
        return NEVER

    def _extreme(self, heap: Ranked, sign: int) -> int:
        """The largest (sign -1) or smallest (sign 1) context offset, dropping stale entries."""
        while True:
            key, _, state = heap[0]
            offset = state.prompt_tokens + state._generated - state._join_epoch
            if state._pool is self and offset == sign * key:
                return offset
            heappop(heap)
