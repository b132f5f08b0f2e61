"""fit_trace: a SyntheticSpec that stands for a real trace, and how well it does.

Owns the fit of rate, gaps, lengths and their rank correlation, and its goodness. A spec and its
quantile table hold no row of the trace, so a confidential trace can be shared as them (the extremes
of each column are in the table). Sessions and shared prefixes are not fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError, TraceError, suggestion
from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.trace.options import (
    GAP_FITS,
    LENGTH_FITS,
    Arrivals,
    Curve,
    EmpiricalArrivals,
    EmpiricalLength,
    GammaArrivals,
    Length,
    LognormalLength,
    PoissonArrivals,
    SyntheticSpec,
    WeibullArrivals,
)
from sim.trace.quantiles import Floats
from sim.trace.stats import spearman

PROBABILITIES: Floats = np.unique(
    np.concatenate([[0, 0.001, 0.002, 0.005], np.arange(1, 100) / 100, [0.995, 0.998, 0.999, 1]])
)
"""Where the quantile table has its points: whole percents, and the tails finer."""
MIN_REQUESTS = 20


@dataclass(frozen=True)
class TraceFit:
    """A model of a trace. `table` is its quantile table: columns by name, one of them `quantile`."""

    spec: SyntheticSpec
    table: dict[str, Floats]


def fit_trace(
    trace: Trace,
    *,
    gaps: str = "empirical",
    lengths: str = "empirical",
    rate_bins: int = 60,
    copula_bins: int = 20,
    table_name: str = "quantiles.csv",
) -> TraceFit:
    """Fit the arrivals (`gaps`: GAP_FITS), the lengths (LENGTH_FITS) and their rank correlation.

    The rate over time is taken in `rate_bins` equal bins (1: a constant rate); the gaps are those
    left when that rate is divided out. The dependence of prompt and output is counted in
    `copula_bins` x `copula_bins` cells of their ranks (1: only their rank correlation is kept).
    `table_name` is what the spec calls its quantile table.
    """
    for name, value, allowed in (("gaps", gaps, GAP_FITS), ("lengths", lengths, LENGTH_FITS)):
        if value not in allowed:
            raise ConfigError(f"{name}: unknown value {value!r}: {suggestion(value, allowed)}")
    if len(trace) < MIN_REQUESTS or trace.arrival_ns[-1] == 0:
        raise TraceError(
            f"{trace.name}: a fit needs at least {MIN_REQUESTS} requests that do not all arrive at once"
        )
    rate, curve, unit_gaps = _rate(trace.arrival_ns, rate_bins)
    table = {
        "quantile": PROBABILITIES,
        "prompt_tokens": np.quantile(trace.prompt_tokens, PROBABILITIES),
        "output_tokens": np.quantile(trace.output_tokens, PROBABILITIES),
        "gap": np.quantile(unit_gaps, PROBABILITIES),
    }
    spec = SyntheticSpec(
        num_requests=len(trace),
        arrivals=_arrivals(gaps, rate, curve, unit_gaps, table_name),
        prompt_tokens=_length(lengths, trace.prompt_tokens, table_name),
        output_tokens=_length(lengths, trace.output_tokens, table_name),
        **_dependence(trace, copula_bins),
    )
    return TraceFit(spec, table)


def _dependence(trace: Trace, bins: int) -> dict[str, Any]:
    """The spec's copula or correlation."""
    if bins <= 1:
        return {"correlation": round(spearman(trace.prompt_tokens, trace.output_tokens) or 0.0, 4)}
    places = [
        np.argsort(np.argsort(tokens, kind="stable")) * bins // len(trace)
        for tokens in (trace.prompt_tokens, trace.output_tokens)
    ]
    counts = np.bincount(places[0] * bins + places[1], minlength=bins * bins).reshape(bins, bins)
    return {"copula": tuple(tuple(map(float, row)) for row in counts.tolist())}


def _rate(arrival_ns: NDArray[np.int64], bins: int) -> tuple[float, Curve | None, Floats]:
    """Mean rate, its course over time, and the gaps in operational time (mean about 1)."""
    seconds = arrival_ns / NS_PER_S
    span = float(seconds[-1])
    rate = (len(seconds) - 1) / span
    if bins <= 1:
        return _round(rate), None, np.diff(seconds) * rate
    width = span / bins
    counts = np.bincount(np.minimum(seconds / width, bins - 1).astype(np.int64), minlength=bins)
    levels = counts / counts.mean()
    curve = Curve(_round(width), tuple(_round(level) for level in levels.tolist()))
    work = np.interp(seconds, width * np.arange(bins + 1), np.concatenate([[0.0], np.cumsum(levels * width)]))
    return _round(rate), curve, np.diff(work) * rate


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def _arrivals(kind: str, rate: float, curve: Curve | None, gaps: Floats, table_name: str) -> Arrivals:
    match kind:
        case "poisson":
            return PoissonArrivals(rate, curve=curve)
        case "gamma":
            return GammaArrivals(rate, curve=curve, burstiness=_round(gamma_shape(gaps)))
        case "weibull":
            return WeibullArrivals(rate, curve=curve, shape=_round(weibull_shape(gaps)))
        case _:
            return EmpiricalArrivals(rate, curve=curve, table=table_name, column="gap")


def gamma_shape(gaps: Floats) -> float:
    """Maximum-likelihood shape of a gamma distribution, by Minka's fixed-point iteration (2002)."""
    positive = gaps[gaps > 0]
    spread = math.log(positive.mean()) - float(np.log(positive).mean())
    # Minka's starting value, then Newton steps on 1/shape.
    shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    for _ in range(20):
        slope = shape**2 * (1 / shape - _trigamma(shape))
        shape = 1 / (1 / shape + (math.log(shape) - _digamma(shape) - spread) / slope)
    return shape


def _digamma(x: float) -> float:
    """Recurrence up to 6, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    result = 0.0
    while x < 6:
        result -= 1 / x
        x += 1
    square = 1 / (x * x)
    return result + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


def _trigamma(x: float) -> float:
    """Recurrence up to 6, then the asymptotic series (Abramowitz and Stegun 6.4.12)."""
    result = 0.0
    while x < 6:
        result += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return result + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def weibull_shape(gaps: Floats) -> float:
    """Maximum-likelihood shape of a Weibull distribution, by bisection of its score."""
    positive = gaps[gaps > 0] / gaps.max()
    logs = np.log(positive)

    def score(shape: float) -> float:
        powers = positive**shape
        return float((powers * logs).sum() / powers.sum() - 1 / shape - logs.mean())

    low, high = 0.01, 100.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if score(middle) > 0 else (middle, high)
    return low


def _length(kind: str, tokens: NDArray[np.int64], table_name: str) -> Length:
    if kind == "empirical":
        return EmpiricalLength(table=table_name)
    logs = np.log(tokens)
    return LognormalLength(
        _round(float(np.exp(logs.mean()))), _round(float(logs.std())), int(tokens.min()), int(tokens.max())
    )
