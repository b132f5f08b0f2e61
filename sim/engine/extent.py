"""Extent: the largest batches that a run can make, so that what holds for them need not be asked again."""

from __future__ import annotations

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel, Policy
from sim.core.trace import Trace


def stays_inside(cost: CostModel, policy: Policy, trace: Trace) -> bool:
    """Whether no batch of a run without padding can lie outside the range of `cost`.

    A range is a box, so the largest batches answer for all. False if the policy has no token budget
    or batch limit that bounds them, or the model cannot tell.
    """
    outside = getattr(cost, "outside", None)
    budget, size = getattr(policy, "token_budget", None), getattr(policy, "max_batch_size", None)
    if outside is None or not isinstance(budget, int) or size is None:
        return False
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    decodes = Batch(size, size * longest, longest, longest)
    return not (outside(decodes) or outside(decodes._replace(chunks=(Chunk(budget, longest),))))
