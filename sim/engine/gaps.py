"""GapLog: the gaps between tokens (TBT), as weighted samples: exact, in memory O(iterations)."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

COMPACT_AT = 1 << 21


class GapLog:
    """A multiset of gaps in ns. Equal gaps of one iteration enter as one weighted sample."""

    def __init__(self) -> None:
        self._gaps = array("q")
        self._counts = array("q")
        self._compact_at = COMPACT_AT

    def add(self, gap_ns: int, count: int) -> None:
        """`count` gaps of `gap_ns` each."""
        self._gaps.append(gap_ns)
        self._counts.append(count)
        if len(self._gaps) >= self._compact_at:
            self._compact()

    def add_run(self, gaps_ns: NDArray[np.int64], count: int) -> None:
        """`count` gaps of each of `gaps_ns`."""
        self._gaps.frombytes(gaps_ns.tobytes())
        self._counts.extend(array("q", (count,)) * len(gaps_ns))
        if len(self._gaps) >= self._compact_at:
            self._compact()

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct gaps, ascending, and the count of each."""
        gaps = np.frombuffer(self._gaps, dtype=np.int64)
        counts = np.frombuffer(self._counts, dtype=np.int64)
        if not len(gaps):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(gaps, kind="stable")
        gaps, counts = gaps[order], counts[order]
        starts = np.flatnonzero(np.concatenate(([True], gaps[1:] != gaps[:-1])))
        return gaps[starts], np.add.reduceat(counts, starts)

    def _compact(self) -> None:
        """Merge equal gaps; the next time at twice what is left, so that the work stays linear."""
        gaps, counts = self.distinct()
        self._gaps, self._counts = array("q", gaps.tobytes()), array("q", counts.tobytes())
        self._compact_at = max(COMPACT_AT, 2 * len(gaps))
