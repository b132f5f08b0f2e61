"""Curves: what a cost model predicts over the batches people ask about. Pure; milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel

NS_PER_MS = 1e6
SATURATED = 0.9
"""Share of the best tokens/s from which on prefill counts as saturated."""

PREFILL_TOKENS = (1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
DECODE_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (256, 1024, 4096, 16384)
HYBRID_DECODES = (0, 8, 32, 128)
HYBRID_CHUNKS = (0, 64, 128, 256, 512, 1024, 2048)
HYBRID_CONTEXT = 1024


def decodes_at(number: int, context: int) -> Batch:
    """A decode-only batch of equal contexts."""
    return Batch(number, number * context, context, context)


def prefill_batch(tokens: int) -> Batch:
    """One whole prompt alone."""
    return Batch(chunks=(Chunk(tokens, 0),))


def prefill_ms(model: CostModel, tokens: int) -> float:
    """One whole prompt alone."""
    return model.iteration_ns(prefill_batch(tokens)) / NS_PER_MS


def decode_ms(model: CostModel, number: int, context: int) -> float:
    """Decodes alone."""
    return model.iteration_ns(decodes_at(number, context)) / NS_PER_MS


def hybrid_ms(model: CostModel, number: int, chunk: int, context: int = HYBRID_CONTEXT) -> float | None:
    """Decodes with the first chunk of a prompt beside them; None for an empty batch."""
    if not number and not chunk:
        return None
    batch = decodes_at(number, context) if number else Batch()
    if chunk:
        batch = batch._replace(chunks=(Chunk(chunk, 0),))
    return model.iteration_ns(batch) / NS_PER_MS


def saturation_tokens(model: CostModel, tokens: Sequence[int] = PREFILL_TOKENS) -> int:
    """The shortest prompt, of those asked, that is prefilled at 90 % of the best rate of them."""
    rates = {number: number / prefill_ms(model, number) for number in tokens}
    best = max(rates.values())
    return next(number for number in tokens if rates[number] >= SATURATED * best)
