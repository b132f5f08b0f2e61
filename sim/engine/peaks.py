"""RecentPeaks: the largest gap since any past iteration, without keeping every gap."""

from __future__ import annotations

from bisect import bisect_left

_HIDES_ALL = 1 << 62
"""Stands below every gap, so that the stack never runs empty."""


class RecentPeaks:
    """A stack of (epoch, gap) with falling gaps: what a later, larger gap hides is forgotten."""

    __slots__ = ("_epochs", "_gaps")

    def __init__(self) -> None:
        self._epochs = [-1]
        self._gaps = [_HIDES_ALL]

    def push(self, epoch: int, gap_ns: int) -> None:
        """The largest gap of the epochs after the last push and up to `epoch`."""
        gaps, epochs = self._gaps, self._epochs
        while gaps[-1] <= gap_ns:
            gaps.pop()
            epochs.pop()
        gaps.append(gap_ns)
        epochs.append(epoch)

    def since(self, epoch: int) -> int:
        """Largest gap pushed for `epoch` or later; 0 if there is none."""
        place = bisect_left(self._epochs, epoch)
        return self._gaps[place] if place < len(self._gaps) else 0
