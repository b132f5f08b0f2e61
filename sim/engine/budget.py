"""token_budget auto: the largest budget whose worst iteration keeps a TBT objective, by the cost model.

Source: Sarathi-Serve (OSDI 2024), section 4.3, which chooses the budget from the TBT objective by
profiling; here the worst iteration that the limits allow is priced instead.
"""

from __future__ import annotations

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel

LARGEST = 1 << 17
"""Budgets beyond this are not tried: no prompt of today's traces needs one."""


def worst_iteration_ns(
    cost: CostModel, token_budget: int, max_batch_size: int, max_context: int, kv_tokens: int | None
) -> int:
    """The longest iteration of `token_budget` tokens: decodes at full context beside one last chunk.

    All numbers of decodes below max_batch_size are tried. A context is at most `max_context` tokens,
    and all together at most `kv_tokens` (None: unlimited).
    """
    return max(
        cost.iteration_ns(_full_batch(decodes, token_budget, max_context, kv_tokens))
        for decodes in range(min(max_batch_size, token_budget))
    )


def _full_batch(decodes: int, token_budget: int, max_context: int, kv_tokens: int | None) -> Batch:
    tokens = min(token_budget - decodes, max_context)
    room = None if kv_tokens is None else max(kv_tokens - max_context, decodes)
    total = decodes * max_context if room is None else min(decodes * max_context, room)
    longest = min(max_context, total)
    chunk = Chunk(tokens, max_context - tokens)
    return Batch(decodes, total, longest, total // decodes if decodes else 0, (chunk,))


def largest_budget(
    cost: CostModel, limit_ns: int, max_batch_size: int, max_context: int, kv_tokens: int | None
) -> int | None:
    """The largest token_budget whose worst iteration lasts at most `limit_ns`; None if none does.

    Supposes that a larger budget never makes the worst iteration shorter.
    """

    def keeps(token_budget: int) -> bool:
        worst = worst_iteration_ns(cost, token_budget, max_batch_size, max_context, kv_tokens)
        return worst <= limit_ns

    if not keeps(1):
        return None
    low, high = 1, 2
    while high <= LARGEST and keeps(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
