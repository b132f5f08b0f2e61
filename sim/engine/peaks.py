"""RecentPeaks: the largest gap since any past iteration, without keeping every gap."""

from __future__ import annotations

from bisect import bisect_left

_BOTTOM = (-1, 1 << 62)
"""Stands below every gap, so that the stack never runs empty."""


class RecentPeaks:
    """A stack of (epoch, gap) with falling gaps: what a later, larger gap hides is forgotten."""

    __slots__ = ("_stack",)

    def __init__(self) -> None:
        self._stack = [_BOTTOM]

    def push(self, epoch: int, gap_ns: int) -> None:
        """The largest gap of the epochs after the last push and up to `epoch`."""
        stack = self._stack
        while stack[-1][1] <= gap_ns:
            stack.pop()
        stack.append((epoch, gap_ns))

    def since(self, epoch: int) -> int:
        """Largest gap pushed for `epoch` or later; 0 if there is none."""
        stack = self._stack
        place = bisect_left(stack, (epoch,))
        return stack[place][1] if place < len(stack) else 0
