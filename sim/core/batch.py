"""Batch: what one iteration computes, as the cost model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

make = tuple.__new__
"""make(Batch, (...)) is Batch(...) at half the cost, for the loops that make millions of them."""


class Chunk(NamedTuple):
    """A piece of one prefill: `tokens` new ones over `cached` already in KV."""

    tokens: int
    cached: int

    @property
    def attention_pairs(self) -> int:
        """Query-key pairs under a causal mask: c*p + c*(c+1)/2 for c new tokens over p cached."""
        return self.tokens * self.cached + self.tokens * (self.tokens + 1) // 2


class Batch(NamedTuple):
    """One iteration's work: some decodes (one token each) and some prefill chunks.

    The context of a decode is the KV entries it reads, the one it writes included (design.md
    section 3). Sum, max and min are over the decodes; all are 0 when there is none.
    """

    num_decodes: int = 0
    decode_context_sum: int = 0
    decode_context_max: int = 0
    decode_context_min: int = 0
    chunks: tuple[Chunk, ...] = ()

    @property
    def prefill_tokens(self) -> int:
        """New prompt tokens over all chunks."""
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def num_tokens(self) -> int:
        """All new tokens of the iteration: one a decode, and the chunks'."""
        return self.num_decodes + self.prefill_tokens

    @property
    def num_sequences(self) -> int:
        """Requests in the batch."""
        return self.num_decodes + len(self.chunks)

    def with_decodes(self, contexts: Sequence[int]) -> Batch:
        """The same batch with a further decode at each of `contexts`, of which there is one at least."""
        shortest = min(contexts)
        return Batch(
            self.num_decodes + len(contexts),
            self.decode_context_sum + sum(contexts),
            max(self.decode_context_max, *contexts),
            min(self.decode_context_min, shortest) if self.num_decodes else shortest,
            self.chunks,
        )

    def after(self, iterations: int) -> Batch:
        """The same decode-only batch `iterations` later: every context has grown by that many."""
        return Batch(
            self.num_decodes,
            self.decode_context_sum + iterations * self.num_decodes,
            self.decode_context_max + iterations,
            self.decode_context_min + iterations,
        )
