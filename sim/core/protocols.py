"""Protocols between layers: what a policy may do, what a cost model must answer, what KV counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.request import RequestState


class CostModel(Protocol):
    """How long an iteration takes. Times are int nanoseconds >= 1, rounded once an iteration.

    A model that never reads decode_context_max and decode_context_min may say so by a class
    attribute `needs_context_spread = False`; the engine then leaves them 0 and saves the work. One
    whose decode-only iterations never get shorter as their contexts grow may say so by
    `grows_with_context = True`; then the last of a run is its longest.

    A model that knows its range may have `outside(batch, iterations) -> int`: how many of the next
    `iterations` of `batch` lie outside what was measured. The engine counts them. The range is a box:
    it holds every batch that is smaller than one it holds.
    """

    def iteration_ns(self, batch: Batch) -> int:
        """Duration of one iteration over `batch`, which has at least one sequence."""
        ...

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        """Durations of the next `iterations` iterations of a decode-only batch, shape (iterations,).

        Element i equals iteration_ns(batch.after(i)) exactly.
        """
        ...


class KVView(Protocol):
    """What a policy may read of the KV cache. All in blocks but `block_size`, which is in tokens."""

    @property
    def block_size(self) -> int: ...
    @property
    def num_blocks(self) -> int | None:
        """None: unlimited."""
        ...

    @property
    def free_blocks(self) -> int: ...
    @property
    def used_blocks(self) -> int: ...


class DecodePool(Protocol):
    """Where the progress of decoding requests is kept (per request, or as aggregates)."""

    def generated_tokens(self, state: RequestState) -> int: ...
    def last_token_ns(self, state: RequestState) -> int | None: ...


class Step(Protocol):
    """One scheduling decision: what a policy sees, and the verbs by which it decides.

    A verb that is refused returns False, changes nothing, and its reason is recorded.
    """

    now_ns: int
    token_budget: int | None
    """The policy's token_budget, None if it has none."""
    max_batch_size: int | None
    rng: np.random.Generator
    preempted: bool
    """Whether this step has preempted; if so it admits no one."""

    @property
    def kv(self) -> KVView: ...

    @property
    def budget_left(self) -> int:
        """Tokens still to give in this iteration; a huge number without a token_budget."""
        ...

    @property
    def waiting(self) -> Iterable[RequestState]:
        """Waiting requests in order, preempted ones first; admitting while iterating is fine."""
        ...

    @property
    def running(self) -> Iterable[RequestState]:
        """Running requests in admission order."""
        ...

    @property
    def prefilling(self) -> Iterable[RequestState]:
        """Running requests whose prefill is not done, in admission order."""
        ...

    @property
    def decoding(self) -> list[RequestState]:
        """Running requests whose prefill is done, in admission order. Costs O(running)."""
        ...

    @property
    def num_waiting(self) -> int: ...
    @property
    def num_running(self) -> int:
        """Slots taken. With async scheduling more than `running` has: a request that finished while
        this decision was being made still has its slot and blocks."""
        ...

    @property
    def num_decoding(self) -> int: ...
    @property
    def num_prefills(self) -> int:
        """Prefills scheduled so far in this step."""
        ...

    def decode_all(self) -> int:
        """Schedule one token for every decode, growing KV in admission order; the number scheduled.

        Under the paged rule a decode that finds no free block preempts the most recently admitted
        request until it can grow (design.md section 5). With more decodes than token_budget, those
        whose last token is oldest go (ties: the one passed over most often, then admission order).
        """
        ...

    def schedule(self, request: RequestState, tokens: int | None = None) -> bool:
        """Give `request` work in this iteration: prefill tokens, or one token if it decodes.

        A waiting request is admitted with it. `tokens` None is the whole remaining prefill.
        Refused (False): no slot, no budget, no KV, or an admission after a preemption.
        """
        ...

    def admit_prompts(self, most_tokens: int | None = None) -> int:
        """Admit waiting requests in order, each with its whole prefill, until one is refused.

        Stops too before prefills of over `most_tokens` together, a single longer one excepted. The
        number admitted.
        """
        ...

    def preempt(self, request: RequestState) -> None:
        """Take a running request off: KV freed, progress to be recomputed, front of waiting."""
        ...

    def pad(self, *, prefill_to: int = 0, decode_slots: int = 0, decode_context: int = 0) -> None:
        """Charge for padding: chunks as long as `prefill_to` tokens, or `decode_slots` decodes at
        `decode_context` each. Real tokens are delivered as scheduled; the rest counts as waste."""
        ...

    def repeat(self, iterations: int) -> None:
        """Run this plan, if it is all decodes and nothing else, so many times before the next decision.

        Requests that finish meanwhile keep slot and KV, and cost a decode, until then. Needs free
        blocks for all iterations; with fewer the plan is run once.
        """
        ...

    def wake_at(self, time_ns: int) -> None:
        """Plan nothing now; ask again at `time_ns`, or at the next arrival if that is sooner."""
        ...


class Policy(Protocol):
    """A scheduler. Its fields are its parameters; see `sim.core.registry.policy`.

    Of requests it reads the public attributes and may write `tag`; nothing guards the others.
    Optional attributes, by which a class departs from what the engine does otherwise:

        memory: str             "reserve" or "paged", whatever kv_cache.memory says
        blocks_by_chunk: bool   with paged, take blocks chunk by chunk, not for the whole prefill
        holds_finished: bool    a finished request keeps slot and KV until all that run have finished
        unlimited_kv: bool      the cache has no end; its peak is reported (the teaching interface)
        steady: bool            while the same requests run, none arrives and KV does not get freer, a
                                decode-only plan repeats itself

    Optional methods, called by the engine:

        prepare(longest_prompt: int) -> str | None    before the run; a text is a notice of the run
        on_arrival(request: RequestState) -> None     a request has begun to wait
        on_tokens(step: Step) -> None                 an iteration's tokens are there, before finished
                                                      requests leave; not with async scheduling
    """

    def plan(self, step: Step) -> None:
        """Decide one iteration through the verbs of `step`. Keep no reference to it afterwards."""
        ...
