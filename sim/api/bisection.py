"""Bisection: the highest rate that passes a test, without taking for granted that lower ones pass too.

Owns the search. What a test is, and what its answers mean, is capacity.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

NEIGHBOURS = (1.05, 1.15, 1.3)
"""Rates this many times below and above the answer are tested as well."""


@dataclass(frozen=True)
class Found:
    """What a search found, and every rate it tried."""

    low: float | None
    """The highest rate that passed before one failed; None if none passed."""
    high: float | None
    """The lowest rate above it that failed; None if none failed."""
    tried: dict[float, bool]

    @property
    def surprises(self) -> list[float]:
        """Rates that failed below `low` or passed above `high`: passing is not monotone there."""
        return sorted(
            rate
            for rate, passed in self.tried.items()
            if (not passed and self.low is not None and rate < self.low)
            or (passed and self.high is not None and rate > self.high)
        )


def highest_passing(
    passes: Callable[[float], bool], start: float, *, precision: float, lowest: float, highest: float
) -> Found:
    """Search from `start` by doubling or halving, then by bisection until high <= low * (1 + precision).

    No rate outside [lowest, highest] is tried, and none twice. Neighbours of the answer are tried
    for surprises; they do not change it.
    """
    tried: dict[float, bool] = {}

    def passing(rate: float) -> bool:
        if rate not in tried:
            tried[rate] = passes(rate)
        return tried[rate]

    low, high = _bracket(passing, min(max(start, lowest), highest), lowest, highest)
    while low is not None and high is not None and high > low * (1 + precision):
        middle = sqrt(low * high)
        low, high = (middle, high) if passing(middle) else (low, middle)
    for factor in NEIGHBOURS:
        if low is not None and low / factor >= lowest:
            passing(low / factor)
        if high is not None and high * factor <= highest:
            passing(high * factor)
    return Found(low, high, tried)


def _bracket(
    passing: Callable[[float], bool], start: float, lowest: float, highest: float
) -> tuple[float | None, float | None]:
    """A rate that passes and one above it that fails; None for the one that the range does not have."""
    rate = start
    if passing(rate):
        while rate < highest:
            above = min(rate * 2, highest)
            if not passing(above):
                return rate, above
            rate = above
        return rate, None
    while rate > lowest:
        below = max(rate / 2, lowest)
        if passing(below):
            return below, rate
        rate = below
    return None, rate
