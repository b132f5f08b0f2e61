"""Percentiles: numpy's linear ones, of plain samples and of values that stand for many samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PERCENTS = (50, 90, 95, 99)


def weighted_percentiles(
    values: NDArray[Any], counts: NDArray[np.int64], percents: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """np.percentile(np.repeat(values, counts), percents), bit for bit, without making the samples.

    `values` must ascend; `percents` lie in [0, 100]. None where there is no sample.
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        return None
    # numpy's own steps in its own order: rank, neighbours, then the two-sided interpolation.
    rank = np.asarray(percents, dtype=np.float64) / 100 * (total - 1)
    below = np.floor(rank)
    share = rank - below
    low_rank = below.astype(np.int64)
    samples = np.asarray(values, dtype=np.float64)
    low = samples[np.searchsorted(ends, low_rank, side="right")]
    high = samples[np.searchsorted(ends, np.minimum(low_rank + 1, total - 1), side="right")]
    step = high - low
    return np.where(share >= 0.5, high - step * (1 - share), low + step * share)


def weighted_percentile(
    values: NDArray[Any], counts: NDArray[np.int64], percent: float
) -> float | None:
    """One percentile of weighted samples; see weighted_percentiles."""
    found = weighted_percentiles(values, counts, np.array([percent], dtype=np.float64))
    return None if found is None else float(found[0])


def describe(samples: NDArray[np.float64]) -> dict[str, float | None]:
    """mean, p50, p90, p95, p99 and max of `samples`; all None where there is none."""
    if len(samples) == 0:
        return _described(None, None, None)
    found = np.percentile(samples, PERCENTS)
    return _described(float(samples.mean()), found, float(samples.max()))


def describe_weighted(
    values: NDArray[np.float64], counts: NDArray[np.int64]
) -> dict[str, float | None]:
    """The same of ascending `values` that occur `counts` times each."""
    found = weighted_percentiles(values, counts, np.array(PERCENTS, dtype=np.float64))
    if found is None:
        return _described(None, None, None)
    mean = float((values * counts).sum() / counts.sum())
    return _described(mean, found, float(values[counts > 0][-1]))


def _described(
    mean: float | None, found: NDArray[np.float64] | None, largest: float | None
) -> dict[str, float | None]:
    described: dict[str, float | None] = {"mean": mean}
    for index, percent in enumerate(PERCENTS):
        described[f"p{percent}"] = None if found is None else float(found[index])
    described["max"] = largest
    return described
