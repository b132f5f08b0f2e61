"""Offered load: is a replica overloaded before we start? A bound from a cost model, no simulation.

Owns the arithmetic; the cost model is any object with the CostModel protocol. What a scheduler would
do is left out on purpose: the figures hold for whatever policy keeps its batches full.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel
from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.trace.stats import window_counts

SAMPLE_REQUESTS = 2000
"""Requests whose prefill is costed one by one; more are sampled at equal distances."""
PACK_TOKENS = 2048
"""Prompts are packed into iterations of about so many tokens."""
PEAK_WINDOW_S = 60.0


@dataclass(frozen=True)
class OfferedLoad:
    """GPU seconds asked for in a second. Above 1 the queue grows without end."""

    alone: float
    """If requests ran one at a time."""
    batched: float
    """If decodes always ran in batches of `batch_size` and prompts were packed: a lower bound."""
    peak: float | None
    """`batched`, in the busiest minute; None in a trace shorter than two minutes."""
    batch_size: int
    """Requests decoded together: max_batch_size, or fewer if the KV cache holds fewer."""
    prefill_share: float
    """Part of `batched` that is prefill."""

    @property
    def verdict(self) -> str:
        """What the figures mean, in a sentence."""
        if self.batched >= 1:
            return "overloaded: work arrives faster than any batching within these limits can do it"
        if self.peak is not None and self.peak >= 1:
            return "overloaded in the busiest minute, not on average: queues build up and drain"
        if self.batched >= 0.8:
            return "near saturation: latency will depend on the policy"
        return "within capacity" if self.alone >= 1 else "light: even one request at a time would keep up"


def offered_load(
    trace: Trace, cost: CostModel, *, max_batch_size: int = 128, kv_tokens: int | None = None
) -> OfferedLoad | None:
    """The load that `trace` puts on one replica; None if all its requests arrive at once.

    `kv_tokens` is what the KV cache holds (None: enough). The decode of the trace's mean context
    stands for all decodes, which is exact for cost models linear in the context.
    """
    span_s = int(trace.arrival_ns[-1]) / NS_PER_S
    if not span_s:
        return None
    prompts, outputs = trace.prompt_tokens.astype(float), trace.output_tokens.astype(float)
    decodes = outputs - 1
    # The decode producing token k+1 has context prompt + k (design.md section 3), k = 1 .. output-1.
    contexts = decodes * prompts + decodes * outputs / 2
    mean_context = round(float(contexts.sum() / max(decodes.sum(), 1)))
    batch_size = max_batch_size
    if kv_tokens is not None:
        batch_size = max(1, min(batch_size, kv_tokens // max(mean_context, 1)))
    packed_ns, single_ns = _prefill_ns(trace, cost)
    decode_ns = float(decodes.mean())
    batched_ns = packed_ns + decode_ns * _decode_ns(cost, batch_size, mean_context)
    rate = (len(trace) - 1) / span_s
    alone_ns = single_ns + decode_ns * _decode_ns(cost, 1, mean_context)
    counts = window_counts(trace.arrival_ns, PEAK_WINDOW_S)
    peak = float(counts.max()) / PEAK_WINDOW_S if len(counts) >= 2 else None
    return OfferedLoad(
        alone=rate * alone_ns / NS_PER_S,
        batched=rate * batched_ns / NS_PER_S,
        peak=None if peak is None else peak * batched_ns / NS_PER_S,
        batch_size=batch_size,
        prefill_share=packed_ns / batched_ns,
    )


def _decode_ns(cost: CostModel, batch_size: int, context: int) -> float:
    """One token's share of a decode iteration."""
    if not context:
        return 0.0
    return cost.iteration_ns(Batch(batch_size, batch_size * context, context, context)) / batch_size


def _prefill_ns(trace: Trace, cost: CostModel) -> tuple[float, float]:
    """Mean prefill time of a request: packed with others, and alone."""
    step = -(-len(trace) // SAMPLE_REQUESTS)
    prompts = trace.prompt_tokens[::step].tolist()
    packs: list[list[Chunk]] = [[]]
    tokens = 0
    for prompt in prompts:
        if packs[-1] and tokens + prompt > PACK_TOKENS:
            packs.append([])
            tokens = 0
        packs[-1].append(Chunk(prompt, 0))
        tokens += prompt
    packed = sum(cost.iteration_ns(Batch(chunks=tuple(pack))) for pack in packs)
    single = sum(cost.iteration_ns(Batch(chunks=(Chunk(prompt, 0),))) for prompt in prompts)
    return packed / len(prompts), single / len(prompts)
