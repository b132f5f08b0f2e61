"""BlockLedger: a paged KV cache as counts of equal blocks; blocks without identity need no table."""

from __future__ import annotations

from sim.core.errors import SimError
from sim.core.request import RequestState

UNLIMITED_BLOCKS = 1 << 60
"""Stands in for the free count of an unlimited cache."""


class BlockLedger:
    """`num_blocks` blocks of `block_size` tokens; free + used = num_blocks after every call.

    `num_blocks` None is an unlimited cache, whose peak is still counted.
    """

    __slots__ = (
        "block_size", "free_blocks", "hit_tokens", "num_blocks", "peak_blocks", "query_tokens",
        "used_blocks",
    )  # fmt: skip

    def __init__(self, num_blocks: int | None, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free_blocks = UNLIMITED_BLOCKS if num_blocks is None else num_blocks
        self.used_blocks = 0
        self.peak_blocks = 0
        self.query_tokens = 0
        """Prefill tokens looked up in a prefix cache, at every admission."""
        self.hit_tokens = 0
        """Those of them that were found."""

    def blocks_for(self, entries: int) -> int:
        """Blocks that hold `entries` tokens of KV."""
        return -(-entries // self.block_size)

    def cached_tokens(self, state: RequestState) -> int:
        """Prefill tokens of `state` already in the cache: none without prefix caching."""
        return 0

    def take(self, blocks: int) -> None:
        """Use `blocks` free blocks; SimError if fewer are free."""
        if blocks > self.free_blocks:
            raise SimError(f"asked for {blocks} KV blocks, {self.free_blocks} are free")
        self.free_blocks -= blocks
        used = self.used_blocks = self.used_blocks + blocks
        if used > self.peak_blocks:
            self.peak_blocks = used

    def give(self, blocks: int) -> None:
        """Free `blocks` used blocks; SimError if fewer are used."""
        if blocks > self.used_blocks:
            raise SimError(f"freed {blocks} KV blocks, {self.used_blocks} are in use")
        self.free_blocks += blocks
        self.used_blocks -= blocks

    def blocks_to_admit(self, state: RequestState, entries: int) -> int:
        """Free blocks that the waiting `state` takes if it is admitted with `entries` of KV."""
        return -(-entries // self.block_size)

    def admit(self, state: RequestState, entries: int) -> None:
        """Give the waiting `state` the blocks for `entries` of KV."""
        self.hold(state, -(-entries // self.block_size))

    def hold(self, state: RequestState, blocks: int) -> None:
        """Give `state` that many more blocks."""
        self.take(blocks)
        state.blocks += blocks

    def note_prefill(self, state: RequestState, tokens: int) -> None:
        """The iteration being planned brings the first `tokens` prefill tokens of `state` into KV."""

    def check(self) -> None:
        """Raise SimError if the counts do not add up, nobody holding any blocks."""
        if self.num_blocks is not None and self.free_blocks + self.used_blocks != self.num_blocks:
            raise SimError(
                f"{self.free_blocks} free + {self.used_blocks} used KV blocks are not {self.num_blocks}"
            )

    def release(self, state: RequestState) -> None:
        """Free all that `state` holds (its `blocks` brought up to date first, see DecodePool)."""
        self.give(state.blocks)
        state.blocks = 0
