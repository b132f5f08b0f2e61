"""Lengths in tokens drawn from the distributions of sim/trace/options.py.

Everything goes through the inverse of the distribution function, so that one pair of correlated
uniforms (a Gaussian copula) gives correlated prompts and outputs whatever their distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sim.trace.options import (
    EmpiricalLength,
    FixedLength,
    Length,
    LognormalLength,
    MixtureLength,
    UniformLength,
    ZipfLength,
)
from sim.trace.quantiles import Floats, quantile_function

Tokens = NDArray[np.int64]
SMALLEST_UNIFORM = 2.0**-53


def draw_lengths(length: Length, uniform: Floats, column: str, base_dir: Path | None = None) -> Tokens:
    """Tokens >= 1 at these uniforms in [0, 1). `column` is the default column of a table."""
    uniform = np.clip(uniform, SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM)
    match length:
        case FixedLength(value):
            return np.full(len(uniform), value, dtype=np.int64)
        case UniformLength(low, high):
            return _rounded(low - 0.5 + uniform * (high - low + 1), low, high)
        case LognormalLength(median, sigma, low, high):
            return _rounded(median * np.exp(sigma * normal_quantile(uniform)), low, high)
        case ZipfLength():
            return _zipf(length, uniform)
        case EmpiricalLength(quantiles, table, named):
            function = quantile_function(quantiles, table, named or column, base_dir)
            return _rounded(function(uniform), 1, None)
        case MixtureLength():
            return _mixture(length, uniform, column, base_dir)


def _rounded(values: Floats, low: int, high: int | None) -> Tokens:
    rounded: Tokens = np.clip(np.rint(values), low, high if high is not None else 2**53).astype(np.int64)
    return rounded


def _zipf(length: ZipfLength, uniform: Floats) -> Tokens:
    ranks: Tokens = np.arange(length.min, length.max + 1, dtype=np.int64)
    cumulative = np.cumsum(ranks.astype(np.float64) ** -length.exponent)
    places = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    tokens: Tokens = length.min + np.minimum(places, len(ranks) - 1).astype(np.int64)
    return tokens


def _mixture(length: MixtureLength, uniform: Floats, column: str, base_dir: Path | None) -> Tokens:
    """The uniform's place among the weights picks the component; its place within, the value."""
    edges = np.concatenate([[0.0], np.cumsum(length.weights) / sum(length.weights)])
    chosen = np.clip(np.searchsorted(edges, uniform, side="right") - 1, 0, len(length.weights) - 1)
    tokens = np.empty(len(uniform), dtype=np.int64)
    for index, component in enumerate(length.components):
        here = chosen == index
        if here.any():
            within = (uniform[here] - edges[index]) / (edges[index + 1] - edges[index])
            tokens[here] = draw_lengths(component, within, column, base_dir)
    return tokens


def normal_quantile(uniform: Floats) -> Floats:
    """The standard normal's quantile function."""
    inverse = NormalDist().inv_cdf
    return np.fromiter(map(inverse, uniform.tolist()), np.float64, len(uniform))


def normal_cdf(values: Floats) -> Floats:
    """The standard normal's distribution function."""
    scaled = (-values / math.sqrt(2)).tolist()
    return np.fromiter(map(math.erfc, scaled), np.float64, len(scaled)) / 2


def copula_uniforms(
    rng: np.random.Generator, count: int, weights: Sequence[Sequence[float]]
) -> tuple[Floats, Floats]:
    """Two columns of uniforms by a checkerboard copula: a cell by its weight, anywhere within it."""
    cells = np.asarray(weights, dtype=np.float64)
    chosen = rng.choice(cells.size, count, p=cells.ravel() / cells.sum())
    within = rng.random((2, count))
    rows, columns = cells.shape
    return (chosen // columns + within[0]) / rows, (chosen % columns + within[1]) / columns


def correlated_uniforms(rng: np.random.Generator, count: int, correlation: float) -> tuple[Floats, Floats]:
    """Two columns of uniforms with this rank correlation (Spearman), by a Gaussian copula."""
    # For a bivariate normal, Spearman's rho = 6/pi * asin(r/2) (Pearson 1907).
    pearson = 2 * math.sin(math.pi * correlation / 6)
    first, other = rng.standard_normal((count, 2)).T
    second = pearson * first + math.sqrt(max(0.0, 1 - pearson**2)) * other
    return normal_cdf(first), normal_cdf(second)
