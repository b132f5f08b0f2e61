"""PrefixCache: a paged KV cache whose full blocks may be used again by requests with the same prefix.

Owns which blocks are cached, shared and evicted; who is admitted is the step's. The rules are
vLLM's (vllm/v1/core/block_pool.py, single_type_kv_cache_manager.py): full blocks only, found by
chained hashes; a block nobody uses stays cached at its place in the queue of free blocks, and is
evicted when that place comes up; freed blocks enter the queue last block first, so that a prefix
outlives what follows it; equal blocks computed twice are not merged, and the oldest is found.
"""

from __future__ import annotations

from collections import OrderedDict

from sim.core.errors import SimError
from sim.core.request import Request, RequestState
from sim.kv.blocks import BlockLedger

Key = tuple[int, int] | tuple[int, int, None]
"""What a cached block holds: (chained hash, block number), or (trace row, block number, None) for
what only this request itself can hit again, after a preemption."""


class CachedBlock:
    """A full block whose content can be found; `users` requests hold it."""

    __slots__ = ("key", "users")
    key: Key
    users: int


class Blanks:
    """Neighbours in the queue of free blocks that have no content worth finding."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class PrefixCache(BlockLedger):
    """See BlockLedger; cached blocks that nobody uses count as free.

    `hash_block_tokens` is what one of Request.prefix_hashes stands for; it need not be block_size.
    Hashes beyond the prompt's own stand for prompt and output together, so that the next turn of a
    session can hit both. A prompt's last hash is left out where it covers part of a block. Blocks
    are cached when the iteration that computes them is planned (a request admitted in the same one
    can hit them already), those of generated tokens when the request finishes or is preempted.
    Blocks without a cached content have no identity: they are counted, as in BlockLedger.
    """

    __slots__ = (
        "_blanks_at_end", "_cached", "_found", "_free", "_hash_tokens", "_held", "_in_flight",
        "_twins", "_version",
    )  # fmt: skip

    def __init__(
        self,
        num_blocks: int | None,
        block_size: int,
        hash_block_tokens: int | None = None,
        entries_in_flight: int = 0,
    ) -> None:
        super().__init__(num_blocks, block_size)
        self._hash_tokens = hash_block_tokens or block_size
        self._in_flight = entries_in_flight
        """Newest entries of a decode that its preemption does not count as computed: with async
        scheduling they are still being written when it is decided."""
        self._cached: dict[Key, CachedBlock] = {}
        self._twins: dict[Key, list[CachedBlock]] = {}
        """Younger cached blocks of the same content, oldest first."""
        self._free: OrderedDict[CachedBlock | Blanks, None] = OrderedDict()
        """The queue of free blocks, next to be used first."""
        self._blanks_at_end: Blanks | None = None
        self._held: dict[RequestState, list[CachedBlock]] = {}
        """The cached blocks that a request uses: its first ones, without a gap."""
        self._version = 0
        """Counts changes of what is cached."""
        self._found: tuple[RequestState | None, int, int, list[CachedBlock]] = (None, 0, 0, [])
        """The last look-up: of whom, for how many prefill tokens, at which version."""
        self._append_blanks(self.free_blocks)

    def cached_tokens(self, state: RequestState) -> int:
        return len(self._find(state)) * self.block_size

    def blocks_to_admit(self, state: RequestState, entries: int) -> int:
        shared = sum(1 for block in self._find(state) if block.users)
        return self.blocks_for(entries) - shared

    def admit(self, state: RequestState, entries: int) -> None:
        hits = self._find(state)
        for block in hits:
            if not block.users:
                del self._free[block]
                self.free_blocks -= 1
                self.used_blocks += 1
            block.users += 1
        if hits:
            self._held[state] = list(hits)
            state.blocks += len(hits)
        self.hold(state, self.blocks_for(entries) - len(hits))
        self.query_tokens += state.prefill_tokens
        self.hit_tokens += len(hits) * self.block_size

    def take(self, blocks: int) -> None:
        super().take(blocks)
        free = self._free
        while blocks:
            entry, _ = free.popitem(last=False)
            if isinstance(entry, CachedBlock):
                self._forget(entry)
                blocks -= 1
            elif entry.count > blocks:
                entry.count -= blocks
                free[entry] = None
                free.move_to_end(entry, last=False)
                blocks = 0
            else:
                blocks -= entry.count
                if entry is self._blanks_at_end:
                    self._blanks_at_end = None

    def give(self, blocks: int) -> None:
        super().give(blocks)
        self._append_blanks(blocks)

    def note_prefill(self, state: RequestState, tokens: int) -> None:
        upto = min(tokens // self.block_size, self._findable_blocks(state.request))
        if upto:
            held = self._held.setdefault(state, [])
            self._cache_upto(state, held, upto)

    def release(self, state: RequestState) -> None:
        held = self._held.pop(state, [])
        is_finished = state._generated == state._output_tokens
        full = self._entries(state, 0 if is_finished else self._in_flight) // self.block_size
        while len(held) > full and held[-1].users == 1:
            self._forget(held.pop())  # planned in this iteration, and not computed after all
        upto = min(full, self._findable_blocks(state.request)) if is_finished else full
        self._cache_upto(state, held, upto)
        self.give(state.blocks - len(held))
        self._drop(held)
        state.blocks = 0

    def _drop(self, held: list[CachedBlock]) -> None:
        """One user less for each; those without any join the queue, last block first."""
        free, before = self._free, len(self._free)
        for block in reversed(held):
            block.users -= 1
            if not block.users:
                free[block] = None
        freed = len(free) - before
        if freed:
            self._blanks_at_end = None
            self.free_blocks += freed
            self.used_blocks -= freed

    def check(self) -> None:
        super().check()
        queued = sum(1 if isinstance(entry, CachedBlock) else entry.count for entry in self._free)
        if queued != self.free_blocks or self._held:
            raise SimError(
                f"{queued} KV blocks are queued as free, {self.free_blocks} are counted; "
                f"{len(self._held)} requests hold cached ones"
            )

    def _find(self, state: RequestState) -> list[CachedBlock]:
        """The cached blocks that hold the beginning of `state`'s prefill, its last token left out."""
        whom, tokens, version, found = self._found
        if whom is state and tokens == state.prefill_tokens and version == self._version:
            return found
        found = []
        findable = self._findable_blocks(state.request)
        last = (state.prefill_tokens - 1) // self.block_size
        for number in range(last if state.num_preemptions else min(last, findable)):
            block = self._cached.get(self._key(state.request, number, findable))
            if block is None:
                break
            found.append(block)
        self._found = (state, state.prefill_tokens, self._version, found)
        return found

    def _findable_blocks(self, request: Request) -> int:
        """Leading blocks of `request` that others can hit: those that whole hashes cover."""
        hashes, size, prompt = len(request.prefix_hashes), self._hash_tokens, request.prompt_tokens
        if not hashes:
            return 0
        tokens = hashes * size
        if tokens > prompt:
            covers_output = (hashes - 1) * size >= prompt
            total = prompt + request.output_tokens if covers_output else prompt
            tokens = min(tokens, total // size * size)
        return tokens // self.block_size

    def _key(self, request: Request, number: int, findable: int) -> Key:
        if number >= findable:
            return request.row, number, None
        last_token = (number + 1) * self.block_size - 1
        return request.prefix_hashes[last_token // self._hash_tokens], number

    def _cache_upto(self, state: RequestState, held: list[CachedBlock], upto: int) -> None:
        """Make blocks that `state` uses findable, so that its first `upto` ones are."""
        if len(held) >= upto:
            return
        request, cached, key_of = state.request, self._cached, self._key
        findable = self._findable_blocks(request)
        for number in range(len(held), upto):
            block = CachedBlock()
            block.key = key = key_of(request, number, findable)
            block.users = 1
            if cached.setdefault(key, block) is not block:
                self._twins.setdefault(key, []).append(block)
            held.append(block)
        self._version += 1

    def _forget(self, block: CachedBlock) -> None:
        self._version += 1
        key, twins = block.key, None
        if self._twins:
            twins = self._twins.get(key)
        if not twins:
            del self._cached[key]
            return
        if self._cached[key] is block:
            self._cached[key] = twins.pop(0)
        else:
            twins.remove(block)
        if not twins:
            del self._twins[key]

    def _append_blanks(self, count: int) -> None:
        if self._blanks_at_end is not None:
            self._blanks_at_end.count += count
        elif count:
            self._blanks_at_end = Blanks(count)
            self._free[self._blanks_at_end] = None

    def _entries(self, state: RequestState, in_flight: int) -> int:
        """KV entries that `state`, no longer in a pool of decodes, has computed for certain."""
        if state.prefilled_tokens < state.prefill_tokens:
            return state.prefilled_tokens
        return max(state.prefill_tokens, state.prompt_tokens + state._generated - 1 - in_flight)
