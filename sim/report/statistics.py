"""Statistics: what several seeds of a comparison show: means, paired differences and how sure they are.

Owns intervals and what may be claimed from them (docs/comparing.md argues both). Pure: a frame in,
a frame or a sentence out. Wording is in verdicts.py.

Every interval is a percentile bootstrap over seeds, seeded, and widened for few seeds: its two arms
are multiplied by t(0.975, n-1) / 1.96 * sqrt(n / (n-1)), which makes it Student's interval where
the bootstrap is symmetric and normal, and leaves it the bootstrap's own for many seeds. Without the
factor a nominal 95 % interval of five seeds would hold the truth 84 times in a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sim.core.rng import stream

RESAMPLES = 5_000
LEVEL_PERCENT = 95
NORMAL_QUANTILE = 1.959964
T_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""Student's t at 0.975 for 1, 2, ... 30 degrees of freedom."""

FEWEST_SEEDS = 5
"""Tables show no interval of fewer seeds: it is right, and too wide to say anything."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and where it may lie; low and high are None with fewer than two seeds."""

    mean: float
    low: float | None
    high: float | None

    def holds(self, value: float) -> bool:
        """Whether `value` is among what the interval leaves possible; without an interval all is."""
        return self.low is None or self.high is None or self.low <= value <= self.high

    def mirrored(self, flip: Callable[[float], float]) -> Interval:
        """What `flip`, which turns greater into less, makes of it."""
        low, high = (None if end is None else flip(end) for end in (self.high, self.low))
        return Interval(flip(self.mean), low, high)


@dataclass(frozen=True)
class Paired:
    """One metric of one policy against a baseline, seed by seed."""

    seeds: int
    mean: float
    baseline_mean: float
    difference: Interval
    """policy - baseline."""
    ratio: Interval | None
    """Of the means, policy / baseline; None unless every value is above 0."""

    @property
    def shown(self) -> bool:
        """Whether the two are told apart: by ratio, else by difference. Never with one seed."""
        if self.ratio is not None:
            return not self.ratio.holds(1.0)
        return not self.difference.holds(0.0)

    def turned(self) -> Paired:
        """The baseline against the policy."""
        ratio = None if self.ratio is None else self.ratio.mirrored(lambda value: 1 / value)
        difference = self.difference.mirrored(lambda value: 0.0 - value)
        return Paired(self.seeds, self.baseline_mean, self.mean, difference, ratio)


def interval(values: Sequence[float] | Values) -> Interval:
    """The mean of `values`, one a seed, and its 95 % interval."""
    sample = np.asarray(values, dtype=np.float64)
    return _spread(float(sample.mean()), _resampled_means(sample), len(sample))


def paired(policy: Sequence[float] | Values, baseline: Sequence[float] | Values) -> Paired:
    """`policy` against `baseline`, which ran the same seeds in the same order."""
    ours, theirs = np.asarray(policy, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    mean, baseline_mean, count = float(ours.mean()), float(theirs.mean()), len(ours)
    difference = interval(ours - theirs)
    ratio = None
    if (ours > 0).all() and (theirs > 0).all():
        # On the log scale, where a ratio and its inverse are treated alike.
        logs = np.log(_resampled_means(ours)) - np.log(_resampled_means(theirs))
        found = _spread(float(np.log(mean / baseline_mean)), logs, count)
        low, high = (None if end is None else float(np.exp(end)) for end in (found.low, found.high))
        ratio = Interval(mean / baseline_mean, low, high)
    return Paired(count, mean, baseline_mean, difference, ratio)


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval of every metric of every policy, over the seeds that have it.

    `frame` is what compare returns: policy, seed, and a column a metric. Columns: policy, metric,
    seeds, mean, low, high; low and high are missing with one seed.
    """
    rows = []
    for policy, group in frame.groupby("policy", sort=False):
        for metric in metric_columns(frame):
            values = group[metric].dropna().to_numpy(dtype=np.float64)
            if len(values):
                found = interval(values)
                rows.append((policy, metric, len(values), found.mean, found.low, found.high))
    return pd.DataFrame(rows, columns=["policy", "metric", "seeds", "mean", "low", "high"])


def differences(frame: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Every ordered pair of policies against each other in every metric, paired by seed.

    Columns: metric, policy, baseline, seeds, mean, baseline_mean, difference (policy - baseline)
    and ratio (policy / baseline) with their `_low` and `_high`; `shown` is whether the interval of
    the ratio (of the difference, where there is no ratio) leaves equality out.
    """
    rows = []
    for metric in metric_columns(frame) if metrics is None else metrics:
        table = frame.pivot(index="seed", columns="policy", values=metric).astype(np.float64)
        for one, other in combinations(frame["policy"].unique(), 2):
            both = table[[one, other]].dropna()
            if len(both):
                found = paired(both[one].to_numpy(), both[other].to_numpy())
                rows.append({"metric": metric, "policy": one, "baseline": other, **_columns(found)})
                rows.append({"metric": metric, "policy": other, "baseline": one, **_columns(found.turned())})
    return pd.DataFrame(rows, columns=["metric", "policy", "baseline", *_COLUMNS])


def long_form(frame: pd.DataFrame) -> pd.DataFrame:
    """The same results, one row a policy, seed, metric: columns policy, seed, metric, value."""
    return frame.melt(["policy", "seed"], metric_columns(frame), "metric", "value")


def metric_columns(frame: pd.DataFrame) -> list[str]:
    """The columns of a comparison that hold results."""
    return [
        name for name in frame.columns
        if name not in ("policy", "seed") and pd.api.types.is_numeric_dtype(frame[name])
    ]  # fmt: skip


def t_factor(count: int) -> float:
    """How much wider than the plain bootstrap's an interval of `count` seeds has to be."""
    freedom = count - 1
    if freedom <= len(T_QUANTILES):
        quantile = T_QUANTILES[freedom - 1]
    else:  # Cornish and Fisher's expansion, four digits from here on
        z = NORMAL_QUANTILE
        quantile = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return quantile / NORMAL_QUANTILE * sqrt(count / freedom)


_COLUMNS = (
    "seeds", "mean", "baseline_mean", "difference", "difference_low", "difference_high",
    "ratio", "ratio_low", "ratio_high", "shown",
)  # fmt: skip


def _columns(found: Paired) -> dict[str, float | int | bool | None]:
    difference, ratio = found.difference, found.ratio or Interval(np.nan, None, None)
    values = (
        found.seeds, found.mean, found.baseline_mean, difference.mean, difference.low, difference.high,
        ratio.mean, ratio.low, ratio.high, found.shown,
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _spread(centre: float, resampled: Values, count: int) -> Interval:
    """The widened percentile interval of a statistic whose value is `centre`."""
    if count < 2:
        return Interval(centre, None, None)
    tail = (100 - LEVEL_PERCENT) / 2
    low, high = np.percentile(resampled, (tail, 100 - tail))
    factor = t_factor(count)
    return Interval(centre, centre - factor * (centre - float(low)), centre + factor * (float(high) - centre))


def _resampled_means(sample: Values) -> Values:
    """Means of RESAMPLES samples with replacement; the same draw of seeds for every metric and policy."""
    result: Values = _weights(len(sample)) @ sample
    return result


@lru_cache(maxsize=4)
def _weights(count: int) -> Values:
    """How much of each of `count` seeds is in each resample's mean."""
    drawn = stream(count, "report.bootstrap").multinomial(count, np.full(count, 1 / count), RESAMPLES)
    result: Values = drawn / count
    return result
