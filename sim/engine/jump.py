"""The exact jump: how far a steady decode batch may be advanced at once. Pure; no SimPy.

While a batch is decode-only and nothing can change the plan, iterations follow one another with
nothing decided in between. Equal to taking them one by one (tests/engine/test_equivalence.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.protocols import CostModel

Ends = tuple[int] | NDArray[np.int64]
"""Ends of successive iterations in ns: one, or a jump's int64 array of several."""

FEW = 4
"""Up to this many iterations, one call each is cheaper than a vectorised one."""


def iteration_ends(
    cost: CostModel, batch: Batch, now_ns: int, limit: int, next_arrival_ns: int | None
) -> Ends:
    """Ends of the next iterations of `batch`: at least one, at most `limit`.

    The last is at the latest the first end at or after `next_arrival_ns`, because the decision made
    there sees that arrival. Stopping earlier is always allowed, so the number of iterations is
    guessed from the first duration, which a growing context only makes longer.
    """
    first_end = now_ns + cost.iteration_ns(batch)
    if next_arrival_ns is not None:
        if first_end >= next_arrival_ns:
            return (first_end,)
        limit = min(limit, -((now_ns - next_arrival_ns) // (first_end - now_ns)))
    if limit == 1:
        return (first_end,)
    if limit <= FEW:
        return _one_by_one(cost, batch, first_end, limit, next_arrival_ns)
    ends = cost.decode_run_ns(batch, limit).cumsum()
    ends += now_ns
    if next_arrival_ns is not None and ends[-1] > next_arrival_ns:
        ends = ends[: int(ends.searchsorted(next_arrival_ns)) + 1]
    return ends


def _one_by_one(
    cost: CostModel, batch: Batch, first_end: int, limit: int, next_arrival_ns: int | None
) -> Ends:
    ends = [first_end]
    for ahead in range(1, limit):
        if next_arrival_ns is not None and ends[-1] >= next_arrival_ns:
            break
        ends.append(ends[-1] + cost.iteration_ns(batch.after(ahead)))
    return np.array(ends, dtype=np.int64) if len(ends) > 1 else (first_end,)


def fitting_iterations(
    blocks_to_grow: Callable[[int, int], int], members: int, block_size: int, free: int, limit: int
) -> int:
    """Largest n <= limit such that n iterations after the planned one find their blocks in `free`.

    `blocks_to_grow(first, n)` is Decodes.blocks_to_grow; the planned iteration is number 0.
    """
    if members * -(-limit // block_size) <= free or blocks_to_grow(1, limit) <= free:
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        if blocks_to_grow(1, middle) <= free:
            low = middle
        else:
            high = middle
    return low
