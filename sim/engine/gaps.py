"""GapLog: the gaps between tokens (TBT), as weighted samples: exact, in memory O(iterations)."""

from __future__ import annotations

from struct import Struct

import numpy as np
from numpy.typing import NDArray

COMPACT_AT = 1 << 24
"""Bytes of samples after which equal ones are merged."""

Column = NDArray[np.int64]

_sample = Struct("qq").pack
_KEY_BITS = 63


class GapLog:
    """A multiset of gaps in ns. Equal gaps of one iteration enter as one weighted sample."""

    def __init__(self) -> None:
        self._samples = bytearray()
        """Pairs of int64, gap and count; packing them costs a third of growing an array.array."""
        self._run_gaps = bytearray()
        self._runs = bytearray()
        """Runs of gaps with one count: the gaps, and by run its (length, count)."""
        self._compact_at = COMPACT_AT

    def add(self, gap_ns: int, count: int) -> None:
        """`count` gaps of `gap_ns` each."""
        self._samples.extend(_sample(gap_ns, count))
        if len(self._samples) >= self._compact_at:
            self._compact()

    def add_run(self, gaps_ns: Column, count: int) -> None:
        """`count` gaps of each of `gaps_ns`, which is contiguous."""
        self._run_gaps.extend(gaps_ns)  # its bytes: bytearray takes a buffer as it is
        self._runs.extend(_sample(len(gaps_ns), count))
        if len(self._run_gaps) >= self._compact_at:
            self._compact()

    def distinct(self) -> tuple[Column, Column]:
        """Distinct gaps, ascending, and the count of each."""
        samples, runs = _pairs(self._samples), _pairs(self._runs)
        gaps = np.concatenate([samples[:, 0], np.frombuffer(self._run_gaps, dtype=np.int64)])
        counts = np.concatenate([samples[:, 1], np.repeat(runs[:, 1], runs[:, 0])])
        if not len(gaps):
            return gaps, counts
        gaps, counts = _sorted(gaps, counts)
        starts = np.flatnonzero(np.concatenate(([True], gaps[1:] != gaps[:-1])))
        return gaps[starts], np.add.reduceat(counts, starts)

    def _compact(self) -> None:
        """Merge equal gaps; the next time at twice what is left, so that the work stays linear."""
        merged = np.column_stack(self.distinct())
        self._samples, self._run_gaps, self._runs = bytearray(merged.data), bytearray(), bytearray()
        self._compact_at = max(COMPACT_AT, 2 * merged.nbytes)


def _pairs(packed: bytearray) -> Column:
    return np.frombuffer(packed, dtype=np.int64).reshape(-1, 2)


def _sorted(gaps: Column, counts: Column) -> tuple[Column, Column]:
    """Both in the order of `gaps`; packed into one number each where that fits, for speed.

    Works in place: fresh memory costs as much as a third of the sort.
    """
    count_bits = int(counts.max()).bit_length()
    if int(gaps.max()).bit_length() + count_bits > _KEY_BITS:
        order = np.argsort(gaps)
        return gaps[order], counts[order]
    # Within a run gaps grow, which the stable sort (a merge of runs) makes use of.
    gaps <<= count_bits
    gaps |= counts
    gaps.sort(kind="stable")
    np.bitwise_and(gaps, (1 << count_bits) - 1, out=counts)
    gaps >>= count_bits
    return gaps, counts
