"""The exact jump: how far a steady decode batch may be advanced at once. Pure; no SimPy.

While a batch is decode-only and nothing can change the plan, iterations follow one another with
nothing decided in between. Equal to taking them one by one (tests/engine/test_equivalence.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.protocols import CostModel

_running_sum = np.add.accumulate

FEW = 4
"""Up to this many iterations, one call each is cheaper than a vectorised one."""


@dataclass(slots=True)
class Jump:
    """Two or more iterations of one decode batch, back to back. Nobody changes it (frozen is slow)."""

    iterations: int
    first_end_ns: int
    later_ns: NDArray[np.int64]
    """Durations of the iterations after the first."""
    longest_ns: int
    """The longest of those."""
    end_ns: int
    """End of the last."""
    cost_calls: int
    """How often the cost model was asked for the later ones."""

    @property
    def last_start_ns(self) -> int:
        """When the last of them begins."""
        return self.end_ns - self.later_ns.item(-1)

    def ends_ns(self) -> list[int]:
        """When each of them ends."""
        return list(accumulate(self.later_ns.tolist(), initial=self.first_end_ns))


def jump_over(
    cost: CostModel,
    batch: Batch,
    start_ns: int,
    first_end_ns: int,
    limit: int,
    change_ns: int | None,
    grows: bool = False,
) -> Jump | None:
    """The next iterations of `batch`, at most `limit`; None if there is only the first.

    The first takes from `start_ns` to `first_end_ns`. The last is at the latest the first that ends
    at or after `change_ns`, because the decision made there sees the change. Stopping earlier is
    always allowed, so the number of iterations is guessed from the first duration, which a growing
    context only makes longer. `grows`: the cost model promises that (CostModel.grows_with_context).
    """
    if change_ns is not None:
        limit = min(limit, -((start_ns - change_ns) // (first_end_ns - start_ns)))
    if limit <= 1:
        return None
    if limit <= FEW:
        return _one_by_one(cost, batch, first_end_ns, limit, change_ns)
    durations = cost.decode_run_ns(batch, limit)
    elapsed = _running_sum(durations)
    last = limit - 1
    if change_ns is not None and elapsed.item(last - 1) >= change_ns - start_ns:
        last = int(elapsed.searchsorted(change_ns - start_ns))
    later = durations[1 : last + 1]
    longest = later.item(-1) if grows else int(later.max())
    return Jump(last + 1, first_end_ns, later, longest, start_ns + elapsed.item(last), 1)


def _one_by_one(
    cost: CostModel, batch: Batch, first_end_ns: int, limit: int, change_ns: int | None
) -> Jump:
    """`jump_over` where the first iteration ends before `change_ns`."""
    durations, end_ns = [], first_end_ns
    for ahead in range(1, limit):
        if change_ns is not None and end_ns >= change_ns:
            break
        durations.append(cost.iteration_ns(batch.after(ahead)))
        end_ns += durations[-1]
    later = np.array(durations, dtype=np.int64)
    return Jump(1 + len(durations), first_end_ns, later, max(durations), end_ns, len(durations))


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
