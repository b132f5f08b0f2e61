"""Request: one line of a trace, and RequestState: how far the engine has brought it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.core.errors import PolicyError

if TYPE_CHECKING:
    from sim.core.protocols import DecodePool


class Request(NamedTuple):
    """What arrives. `row` is its place in the trace and the last tie-breaker everywhere."""

    row: int
    id: str
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    client: str | None = None
    slo_class: str | None = None
    prefix_hashes: tuple[int, ...] = ()
    """Chained hashes of the prompt's blocks, `Trace.hash_block_tokens` tokens each; () = unique."""


class RequestState:
    """A request in the engine. Policies read the public attributes; only the engine writes.

    `prefill_tokens` is what this prefill must put into KV: the prompt, and after a preemption by
    recompute also the tokens generated so far. `prefilled_tokens` of them are there already.
    """

    __slots__ = (
        "_generated",
        "_join_epoch",
        "_last_token_ns",
        "_max_tbt_ns",
        "_oracle",
        "_output_tokens",
        "_pool",
        "_veteran_from",
        "admission",
        "arrival_ns",
        "blocks",
        "client",
        "first_scheduled_ns",
        "first_token_ns",
        "id",
        "is_swapped",
        "num_preemptions",
        "prefill_tokens",
        "prefilled_tokens",
        "priority",
        "prompt_tokens",
        "request",
        "row",
        "slo_class",
        "tag",
    )

    def __init__(self, request: Request, oracle: bool = False) -> None:
        self.request = request
        (
            self.row, self.id, self.arrival_ns, self.prompt_tokens, self._output_tokens,
            self.priority, self.client, self.slo_class, _,
        ) = request  # fmt: skip
        self.prefill_tokens = self.prompt_tokens
        self.prefilled_tokens = 0
        self.blocks = 0
        """KV blocks held, except those that decodes of a pool have grown (see DecodePool)."""
        self.admission: int | None = None
        """Rank by admission to running, None while waiting; larger is more recent."""
        self.first_scheduled_ns: int | None = None
        self.first_token_ns: int | None = None
        self.num_preemptions = 0
        self.is_swapped = False
        """Preempted with its KV kept in host memory."""
        self.tag: object = None
        """Free for the policy's own use; the engine never reads it."""
        self._oracle = oracle
        self._generated = 0
        self._pool: DecodePool | None = None
        self._join_epoch = 0
        self._veteran_from = 0
        self._last_token_ns: int | None = None
        self._max_tbt_ns: int | None = None

    @property
    def output_tokens(self) -> int:
        """The true output length; a policy may read it only under `policy: {oracle: true}`."""
        if not self._oracle:
            raise PolicyError(
                f"request {self.id}: a policy read output_tokens, which no scheduler knows; "
                "set policy.oracle: true to allow it (the report will say so)"
            )
        return self._output_tokens

    @property
    def generated_tokens(self) -> int:
        """Output tokens emitted so far."""
        pool = self._pool
        return self._generated if pool is None else pool.generated_tokens(self)

    @property
    def last_token_ns(self) -> int | None:
        """When the newest token appeared; None before the first."""
        pool = self._pool
        return self._last_token_ns if pool is None else pool.last_token_ns(self)

    @property
    def remaining_prefill_tokens(self) -> int:
        """Prefill tokens not yet in KV; 0 once the request decodes."""
        return self.prefill_tokens - self.prefilled_tokens

    @property
    def context_tokens(self) -> int:
        """KV entries its next decode reads, the one being written included."""
        return self.prompt_tokens + self.generated_tokens

    def __repr__(self) -> str:
        return (
            f"RequestState({self.id!r}, prefilled {self.prefilled_tokens}/{self.prefill_tokens}, "
            f"generated {self.generated_tokens})"
        )
