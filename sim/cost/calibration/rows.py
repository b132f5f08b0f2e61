"""MeasuredRow: one iteration's batch and its measured time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sim.core.batch import Batch, Chunk
from sim.cost.validity import ValidRange

KINDS = ("decode", "prefill", "mixed")


class MeasuredRow(NamedTuple):
    """What ran, how long it took, and where that was read."""

    batch: Batch
    time_us: float
    where: str
    """File and row, for messages and for the worst row."""

    @property
    def kind(self) -> str:
        """decode, prefill (no decodes) or mixed."""
        if not self.batch.chunks:
            return "decode"
        return "mixed" if self.batch.num_decodes else "prefill"

    @property
    def lines(self) -> tuple[tuple[str, int], ...]:
        """The grid lines the row lies on, by axis and value; held out one at a time."""
        batch = self.batch
        found = []
        if batch.num_decodes:
            found += [
                ("num_decodes", batch.num_decodes),
                ("context", batch.decode_context_sum // batch.num_decodes),
            ]
        if batch.chunks:
            found += [("prefill_tokens", batch.prefill_tokens), ("cached", batch.chunks[0].cached)]
        return tuple(found)

    def describe(self) -> str:
        """The batch in words."""
        batch = self.batch
        parts = [f"prefill of {chunk.tokens} over {chunk.cached} cached" for chunk in batch.chunks[:1]]
        if len(batch.chunks) > 1:
            parts[0] = f"{len(batch.chunks)} x {parts[0]}"
        if batch.num_decodes:
            context = batch.decode_context_sum / batch.num_decodes
            parts.append(f"{batch.num_decodes} decodes at context {context:.0f}")
        return " with ".join(parts)


def batch_of(
    num_decodes: int, context_sum: int, prefills: int = 0, prefill_tokens: int = 0, cached: int = 0
) -> Batch:
    """A batch of equal decodes and `prefills` equal chunks."""
    each = -(-context_sum // num_decodes) if num_decodes else 0
    chunks = (Chunk(prefill_tokens, cached),) * prefills
    return Batch(num_decodes, context_sum, each, each, chunks)


def range_of(rows: Sequence[MeasuredRow]) -> ValidRange:
    """What the rows cover."""
    batches = [row.batch for row in rows]
    with_decodes = [batch for batch in batches if batch.num_decodes]
    with_prefill = [batch for batch in batches if batch.chunks]
    return ValidRange(
        max((batch.num_decodes for batch in with_decodes), default=0),
        max((-(-batch.decode_context_sum // batch.num_decodes) for batch in with_decodes), default=0),
        max((batch.num_tokens for batch in with_prefill), default=0),
        max((chunk.cached for batch in with_prefill for chunk in batch.chunks), default=0),
    )
