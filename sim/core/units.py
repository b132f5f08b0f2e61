"""Time units: integer nanoseconds inside, seconds only at the edges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

NS_PER_S = 1_000_000_000
NS_PER_US = 1_000

UNSET_NS = np.iinfo(np.int64).min
"""Marks "has not happened" in an int64 time column, as NaT does for dates; None outside arrays."""


def seconds_to_ns(seconds: float | str) -> int:
    """Nearest integer nanosecond; exact for a decimal string, half to even otherwise."""
    return round(Fraction(seconds) * NS_PER_S)


def ns_to_seconds(time_ns: int) -> float:
    """The double nearest to `time_ns` nanoseconds."""
    return time_ns / NS_PER_S


def column_to_seconds(column_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds as float64, NaN where the entry is UNSET_NS."""
    seconds = column_ns / NS_PER_S
    seconds[column_ns == UNSET_NS] = np.nan
    return seconds
