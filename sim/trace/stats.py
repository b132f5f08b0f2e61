"""What a trace is like: pure functions over its columns. None where a figure does not exist."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sim.core.units import NS_PER_S
from sim.trace.quantiles import Floats

Ints = NDArray[np.int64]


def gap_cv(arrival_ns: Ints) -> float | None:
    """Coefficient of variation of the gaps between arrivals; 1 for Poisson."""
    gaps = np.diff(arrival_ns)
    return float(gaps.std() / gaps.mean()) if len(gaps) and gaps.any() else None


def dispersion(arrival_ns: Ints, window_s: float) -> float | None:
    """Index of dispersion: variance over mean of the counts in whole windows; 1 for Poisson."""
    counts = window_counts(arrival_ns, window_s)
    return float(counts.var() / counts.mean()) if len(counts) >= 2 and counts.any() else None


def window_counts(arrival_ns: Ints, window_s: float) -> Ints:
    """Arrivals in each whole window from the first arrival on."""
    window_ns = round(window_s * NS_PER_S)
    whole = int(arrival_ns[-1] // window_ns)
    places = arrival_ns[arrival_ns < whole * window_ns] // window_ns
    return np.bincount(places, minlength=whole).astype(np.int64)


def ranks(values: NDArray[np.generic]) -> Floats:
    """Ranks from 0, ties sharing their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: Floats = last - (counts + 1) / 2
    return middle[place]


def spearman(first: NDArray[np.generic], second: NDArray[np.generic]) -> float | None:
    """Rank correlation; None if either is constant."""
    return pearson(ranks(first), ranks(second))


def pearson(first: Floats | Ints, second: Floats | Ints) -> float | None:
    """Linear correlation; None if either is constant."""
    if len(first) < 2 or not (np.ptp(first) and np.ptp(second)):
        return None
    return float(np.corrcoef(first, second)[0, 1])


def ks_distance(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    """Two-sample Kolmogorov-Smirnov statistic: the largest gap between the two distributions."""
    first, second = np.sort(first), np.sort(second)
    points = np.concatenate([first, second])
    below = np.searchsorted(first, points, side="right") / len(first)
    return float(np.abs(below - np.searchsorted(second, points, side="right") / len(second)).max())


def ks_p_value(distance: float, first: int, second: int) -> float:
    """Chance of a distance so large between equal distributions (Kolmogorov's limit, Stephens 1970)."""
    root = math.sqrt(first * second / (first + second))
    scaled = (root + 0.12 + 0.11 / root) * distance
    if scaled < 0.2:
        return 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
    return float(min(1.0, max(0.0, 2 * sum(terms))))
