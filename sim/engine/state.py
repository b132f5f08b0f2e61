"""ReplicaState: who waits, runs, prefills and decodes on one replica, and who holds which KV."""

from __future__ import annotations

from sim.core.request import RequestState
from sim.engine.decodes import Decodes
from sim.engine.queue import Queue
from sim.kv import BlockLedger, MemoryRule


class ReplicaState:
    """The single owner of a replica's mutable scheduling state."""

    def __init__(
        self,
        kv: BlockLedger,
        memory: MemoryRule,
        decodes: Decodes,
        waiting: Queue,
        by_chunk: bool = False,
        swaps: bool = False,
    ) -> None:
        self.kv = kv
        self.memory = memory
        self.by_chunk = by_chunk
        """A prefill takes the blocks of each chunk when it is scheduled, not all at admission."""
        self.decodes = decodes
        self.decoding = decodes.members
        self.waiting = waiting
        self.running: dict[RequestState, None] = {}
        """In admission order: a dict keeps insertion order and removes in O(1)."""
        self.prefilling: dict[RequestState, None] = {}
        self.held: list[RequestState] = []
        """Finished requests whose KV and slot a request-level batch still holds."""
        self.leaving: dict[RequestState, None] = {}
        """Finished requests whose KV and slot one more decision still counts (async scheduling)."""
        self._admissions = 0
        self._swaps = swaps
        self._grows = memory.grows
        self.moving_blocks = 0
        """KV blocks to be copied to or from host memory before the next iteration."""

    def admit(self, request: RequestState, entries: int, cached_tokens: int, now_ns: int) -> None:
        """Move `request` from waiting to running, with the blocks for `entries` of KV."""
        self.waiting.remove(request)
        self.kv.admit(request, entries)
        request.prefilled_tokens = cached_tokens
        if request.first_scheduled_ns is None:
            request.first_scheduled_ns = now_ns
        self._enter_running(request)
        self.prefilling[request] = None

    def resume(self, request: RequestState, entries: int) -> None:
        """Move a swapped `request` from waiting back to the decodes, with the blocks for `entries`."""
        self.waiting.remove(request)
        self.kv.hold(request, self.kv.blocks_for(entries))
        self.moving_blocks += self.kv.blocks_for(request.context_tokens - 1)
        request.is_swapped = False
        self._enter_running(request)
        self.decodes.add(request)

    def start_decoding(self, request: RequestState) -> None:
        """`request` has produced the token that ends its prefill."""
        del self.prefilling[request]
        self.decodes.add(request)

    def evict(self, request: RequestState) -> None:
        """Preempt: free the KV and go to the front of waiting.

        By swap a decode's KV is kept in host memory; else, and in a prefill, it is to be recomputed.
        """
        if self._swaps and request in self.decoding:
            request.is_swapped = True
            self.moving_blocks += self.kv.blocks_for(request.context_tokens - 1)
        self._leave(request)
        if not request.is_swapped:
            request.prefill_tokens = request.prompt_tokens + request._generated
            request.prefilled_tokens = 0
        request.admission = None
        request.num_preemptions += 1
        self.waiting.put_back(request)

    def finish(self, request: RequestState) -> None:
        """`request` has all its tokens: free what it held."""
        self._leave(request)

    def hold_finished(self, request: RequestState) -> None:
        """`request` has all its tokens, but keeps KV and slot until its batch ends."""
        self.held.append(request)
        self._stop(request)

    def release_held(self) -> None:
        """Free what the finished requests of an ended batch held."""
        for request in self.held:
            self._release(request)
        self.held.clear()

    def finish_late(self, request: RequestState) -> None:
        """`request` has all its tokens, but the decision being made does not know that yet."""
        self.leaving[request] = None
        self._stop(request)

    def release_leaving(self, request: RequestState) -> None:
        """Free what a request that finished late held."""
        del self.leaving[request]
        self._release(request)

    def _enter_running(self, request: RequestState) -> None:
        request.admission = self._admissions
        self._admissions += 1
        self.running[request] = None

    def _leave(self, request: RequestState) -> None:
        self._stop(request)
        self._release(request)

    def _stop(self, request: RequestState) -> None:
        """`request` computes no more; its fields are up to date afterwards."""
        if request in self.decoding:
            self.decodes.remove(request)
            if self._grows:
                request.blocks = self.kv.blocks_for(request.prompt_tokens + request._generated - 1)
        self.prefilling.pop(request, None)
        self.waiting.left(request)

    def _release(self, request: RequestState) -> None:
        del self.running[request]
        self.kv.release(request)
