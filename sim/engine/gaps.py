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
        """The count of each of _gaps."""
        self._run_gaps = array("q")
        self._run_counts = array("q")
        self._run_lengths = array("q")
        """The same for runs of gaps with one count: that count, and how many of _run_gaps have it."""
        self._compact_at = COMPACT_AT

    def add(self, gap_ns: int, count: int) -> None:
        """`count` gaps of `gap_ns` each."""
        self._gaps.append(gap_ns)
        self._counts.append(count)
        if len(self._gaps) >= self._compact_at:
            self._compact()

    def add_run(self, gaps_ns: NDArray[np.int64], count: int) -> None:
        """`count` gaps of each of `gaps_ns`."""
        self._run_gaps.frombytes(gaps_ns.tobytes())
        self._run_counts.append(count)
        self._run_lengths.append(len(gaps_ns))
        if len(self._run_gaps) >= self._compact_at:
            self._compact()

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct gaps, ascending, and the count of each."""
        gaps = np.concatenate([_column(self._gaps), _column(self._run_gaps)])
        counts = np.concatenate(
            [_column(self._counts), np.repeat(_column(self._run_counts), _column(self._run_lengths))]
        )
        if not len(gaps):
            return gaps, counts
        order = np.argsort(gaps)
        gaps, counts = gaps[order], counts[order]
        starts = np.flatnonzero(np.concatenate(([True], gaps[1:] != gaps[:-1])))
        return gaps[starts], np.add.reduceat(counts, starts)

    def _compact(self) -> None:
        """Merge equal gaps; the next time at twice what is left, so that the work stays linear."""
        gaps, counts = self.distinct()
        self._gaps, self._counts = array("q", gaps.tobytes()), array("q", counts.tobytes())
        self._run_gaps, self._run_counts, self._run_lengths = array("q"), array("q"), array("q")
        self._compact_at = max(COMPACT_AT, 2 * len(gaps))


def _column(values: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(values, dtype=np.int64) if values else np.empty(0, np.int64)
