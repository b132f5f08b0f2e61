"""Step: one scheduling decision. The verbs of sim.core.protocols.Step, over one replica's state.

Owns what a decision may do to queue, running set and KV; leaves time, cost and tokens to the
replica. Every verb checks first and then acts, so a refusal changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index

import numpy as np

from sim.core.batch import Batch, Chunk, make
from sim.core.errors import PolicyError, StalledError
from sim.core.request import RequestState
from sim.engine.state import ReplicaState
from sim.engine.turns import Turns
from sim.engine.victims import Running

NO_BUDGET = 1 << 60
"""Stands in for the tokens left where the policy has no token_budget."""
MAX_REFUSALS = 1_000_000
"""Refused verbs in one step, beyond two a waiting request, that count as a policy going in circles."""


class Step:
    """See sim.core.protocols.Step. One object serves all decisions: `begin` starts the next."""

    def __init__(
        self,
        state: ReplicaState,
        token_budget: int | None,
        max_batch_size: int | None,
        watermark_blocks: int,
        rng: np.random.Generator,
        victim: Callable[[Running], RequestState],
    ) -> None:
        self._state = state
        self._decodes = state.decodes
        self._decoding = state.decoding
        self._grows = state.memory.grows
        self._queue_reads_clock = state.waiting.reads_clock
        self.kv = state.kv
        self.waiting: Iterable[RequestState] = state.waiting
        self.rng = rng
        self.token_budget = token_budget
        self.max_batch_size = max_batch_size
        self._watermark_blocks = watermark_blocks
        self._victim = victim
        self._turns = Turns()
        self.now_ns = 0
        self.preempted = False
        self.all_decodes = False
        """Every decode is scheduled."""
        self.some_decodes: dict[RequestState, bool] = {}
        """Decodes scheduled one by one, and whether each took a block for it."""
        self.chunks: dict[RequestState, int] = {}
        """Prefill tokens scheduled, by request."""
        self._tokens = self.budget_left = NO_BUDGET if token_budget is None else token_budget
        self._refusals = 0
        self.blocked_by: str | None = None
        """Why the first refused request was refused: slots, budget, kv, preempted."""
        self._forget_the_unusual()

    def begin(self, now_ns: int) -> None:
        """Start the decision made at `now_ns`."""
        self.now_ns = now_ns
        self.budget_left = self._tokens
        self.preempted = self.all_decodes = False
        # Only what the last decision has touched: this is done once an iteration.
        if self.chunks:
            self.chunks = {}
        if self.some_decodes:
            self.some_decodes = {}
        if self._refusals:
            self._refusals, self.blocked_by = 0, None
        if self.is_unusual:
            self._forget_the_unusual()
        if self._queue_reads_clock:
            self._state.waiting.begin(now_ns)

    def _forget_the_unusual(self) -> None:
        self.is_unusual = False
        """Whether anything of the following is set."""
        self.wake_ns: int | None = None
        self.pad_prefill_to = 0
        self.pad_decode_slots = 0
        self.pad_decode_context = 0
        self.iterations = 1
        """How often the plan is run before the next decision; 0 if it is a repetition."""
        self.ghost_contexts: tuple[int, ...] = ()
        """Contexts of finished requests that still cost a decode in a repetition."""

    # What a policy may read.

    @property
    def running(self) -> Iterable[RequestState]:
        state = self._state
        if state.leaving:
            return [request for request in state.running if request not in state.leaving]
        return list(state.running)

    @property
    def prefilling(self) -> Iterable[RequestState]:
        prefilling = self._state.prefilling
        return list(prefilling) if prefilling else ()

    @property
    def decoding(self) -> list[RequestState]:
        return self._state.decodes.in_admission_order()

    @property
    def num_waiting(self) -> int:
        return len(self._state.waiting)

    @property
    def num_running(self) -> int:
        return len(self._state.running)

    @property
    def num_decoding(self) -> int:
        return len(self._state.decoding)

    @property
    def num_prefills(self) -> int:
        return len(self.chunks)

    @property
    def is_padded(self) -> bool:
        """Whether the plan computes more than it delivers."""
        return bool(self.pad_prefill_to or self.pad_decode_slots)

    # The verbs.

    def decode_all(self) -> int:
        if self.all_decodes:
            raise PolicyError("decode_all was called twice in one iteration")
        decodes = self._decodes
        count = len(self._decoding) - len(self.some_decodes)
        if count > self.budget_left:
            return self._decode_oldest(self.budget_left)
        if self.some_decodes:
            return self._decode_each(decodes.in_admission_order())
        if not count:
            return 0
        if self._grows and (need := decodes.blocks_to_grow()):
            if need > self.kv.free_blocks:
                return self._decode_each(decodes.in_admission_order())
            self.kv.take(need)
        self.all_decodes = True
        self.budget_left -= count
        return count

    def schedule(self, request: RequestState, tokens: int | None = None) -> bool:
        if tokens is not None:
            tokens = index(tokens)
        if request in self.chunks or request in self.some_decodes:
            raise PolicyError(f"request {request.id} was scheduled twice in one iteration")
        state = self._state
        if request.admission is None:
            return self._admit(request, tokens)
        if request in state.prefilling:
            return self._continue_prefill(request, tokens)
        if request in state.decoding:
            return self._decode(request)
        raise PolicyError(f"request {request.id} is finished and cannot be scheduled")

    def preempt(self, request: RequestState) -> None:
        state = self._state
        if request.admission is None or request not in state.running:
            raise PolicyError(f"request {request.id} is not running and cannot be preempted")
        if self.all_decodes and request in state.decoding:
            self._spell_out_decodes()
        if request in self.some_decodes:
            self.budget_left += 1
            if self.some_decodes.pop(request):
                self.kv.give(1)
        self.budget_left += self.chunks.pop(request, 0)
        if request in state.leaving:
            state.release_leaving(request)  # It has all its tokens: nothing to recompute.
        else:
            state.evict(request)
        self.preempted = True

    def pad(self, *, prefill_to: int = 0, decode_slots: int = 0, decode_context: int = 0) -> None:
        self.is_unusual = True
        self.pad_prefill_to = prefill_to
        self.pad_decode_slots = decode_slots
        self.pad_decode_context = decode_context

    def repeat(self, iterations: int) -> None:
        self.is_unusual = True
        self.iterations = index(iterations)

    def admit_prompts(self, most_tokens: int | None = None) -> int:
        admitted, tokens = 0, 0
        for request in self.waiting:
            if most_tokens is not None and tokens:
                lacking = request.prefill_tokens - self.kv.cached_tokens(request)
                if tokens + lacking > most_tokens:
                    break
            if not self.schedule(request):
                break
            admitted += 1
            tokens += self.chunks.get(request, 0)
        return admitted

    def wake_at(self, time_ns: int) -> None:
        self.is_unusual = True
        self.wake_ns = index(time_ns)

    # For the replica.

    def finish_planning(self) -> None:
        """Recognise a plan that decodes every member, however the policy spelled it."""
        if len(self.some_decodes) == len(self._state.decoding):
            self.some_decodes = {}
            self.all_decodes = True

    def begin_repetition(self, now_ns: int) -> None:
        """Start the same all-decodes plan again, at `now_ns`, for those that have not finished."""
        state = self._state
        self.begin(now_ns)
        self.is_unusual = True
        self.iterations = 0
        self.all_decodes = True
        self.ghost_contexts = tuple(request.context_tokens for request in state.held)
        if state.memory.grows:
            self.kv.take(state.decodes.blocks_to_grow())

    def batch(self) -> Batch:
        """The plan as the cost model sees it, padding included."""
        if self.is_unusual and self.is_padded:
            return self._padded_batch()
        chunks: tuple[Chunk, ...] = ()
        if self.chunks:
            made = []
            for request, tokens in self.chunks.items():
                made.append(make(Chunk, (tokens, request.prefilled_tokens)))
            chunks = tuple(made)
        if self.all_decodes:
            decodes = self._decodes.batch(chunks)
            return decodes.with_decodes(self.ghost_contexts) if self.ghost_contexts else decodes
        if not self.some_decodes:
            return Batch(chunks=chunks)
        contexts = [request.context_tokens for request in self.some_decodes]
        return Batch(chunks=chunks).with_decodes(contexts)

    def _padded_batch(self) -> Batch:
        slots, context = self.pad_decode_slots, self.pad_decode_context
        chunks = tuple([Chunk(self.pad_prefill_to, 0)] * len(self.chunks))
        return Batch(slots, slots * context, context, context, chunks)

    def _refuse(self, reason: str) -> bool:
        if self.blocked_by is None:
            self.blocked_by = reason
        self._refusals += 1
        if self._refusals > MAX_REFUSALS + 2 * self.num_waiting:
            raise StalledError(f"the policy was refused {self._refusals} times in one decision")
        return False

    def _admit(self, request: RequestState, tokens: int | None) -> bool:
        state, kv = self._state, self.kv
        if self.preempted:
            return self._refuse("preempted")
        if self.max_batch_size is not None and len(state.running) >= self.max_batch_size:
            return self._refuse("slots")
        if request.is_swapped:
            return self._resume(request)
        cached = kv.cached_tokens(request)
        remaining = request.prefill_tokens - cached
        chunk = remaining if tokens is None or tokens > remaining else tokens
        if chunk > self.budget_left or chunk <= 0:
            return self._refuse("budget")
        entries = state.memory.admission_entries(request)
        spare = self._watermark_blocks if state.running else 0
        if kv.blocks_to_admit(request, entries) + spare > kv.free_blocks:
            return self._refuse("kv")
        state.admit(request, cached + chunk if state.by_chunk else entries, cached, self.now_ns)
        self._give_chunk(request, chunk)
        return True

    def _resume(self, request: RequestState) -> bool:
        """Bring a swapped request back; it decodes in this iteration."""
        state, kv = self._state, self.kv
        if self.budget_left < 1:
            return self._refuse("budget")
        grows = state.memory.grows
        entries = request.context_tokens if grows else state.memory.admission_entries(request)
        spare = self._watermark_blocks if state.running else 0
        if kv.blocks_for(entries) + spare > kv.free_blocks:
            return self._refuse("kv")
        state.resume(request, entries)
        self.budget_left -= 1
        if not self.all_decodes:
            self.some_decodes[request] = grows and state.decodes.needs_block(request)
        return True

    def _continue_prefill(self, request: RequestState, tokens: int | None) -> bool:
        remaining = request.prefill_tokens - request.prefilled_tokens
        chunk = remaining if tokens is None or tokens > remaining else tokens
        if chunk > self.budget_left or chunk <= 0:
            return self._refuse("budget")
        if self._state.by_chunk:
            blocks = self.kv.blocks_for(request.prefilled_tokens + chunk) - request.blocks
            if blocks and not self._make_room(request, blocks):
                return False
            self.kv.hold(request, blocks)
        self._give_chunk(request, chunk)
        return True

    def _make_room(self, request: RequestState, blocks: int) -> bool:
        """Preempt victims until `blocks` are free; False if one of them was `request`."""
        while self.kv.free_blocks < blocks:
            victim = self._victim(self._state.running)
            self.preempt(victim)
            if victim is request:
                return False
        return True

    def _give_chunk(self, request: RequestState, chunk: int) -> None:
        self.chunks[request] = chunk
        self.budget_left -= chunk
        self.kv.note_prefill(request, request.prefilled_tokens + chunk)

    def _decode(self, request: RequestState) -> bool:
        """One token for one decode; False if it had to give way itself."""
        if self.all_decodes:
            raise PolicyError(f"request {request.id} was scheduled twice in one iteration")
        if self.budget_left < 1:
            return self._refuse("budget")
        state = self._state
        takes_block = self._grows and state.decodes.needs_block(request)
        if takes_block:
            if not self._make_room(request, 1):
                return False
            self.kv.take(1)
        self.some_decodes[request] = takes_block
        self.budget_left -= 1
        return True

    def _spell_out_decodes(self) -> None:
        """From `all decodes` to each of them, so that one can be taken out."""
        decodes, grows = self._state.decodes, self._state.memory.grows
        self.all_decodes = False
        self.some_decodes = {
            request: grows and decodes.needs_block(request) for request in decodes.in_admission_order()
        }

    def _decode_each(self, requests: list[RequestState]) -> int:
        """Schedule `requests` in the order given; one preempted for an earlier one is passed over."""
        before = len(self.some_decodes)
        for request in requests:
            if request in self._state.decoding and request not in self.some_decodes:
                self._decode(request)
        return len(self.some_decodes) - before

    def _decode_oldest(self, count: int) -> int:
        """The `count` decodes whose last token is oldest, and nothing else."""
        decodes = self._state.decodes.in_admission_order()
        chosen = self._turns.oldest([d for d in decodes if d not in self.some_decodes], count)
        scheduled = self._decode_each(chosen)
        self.budget_left = 0
        return scheduled
