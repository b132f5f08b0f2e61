"""Arrival times from the processes of sim/trace/options.py.

Gaps are drawn at mean 1 and laid end to end in operational time; the inverse of the cumulative rate
turns that into seconds. So any gap distribution goes with any change of rate over time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError
from sim.core.rng import stream
from sim.core.units import NS_PER_S
from sim.trace.options import (
    Arrivals,
    ConstantArrivals,
    Crowd,
    Diurnal,
    EmpiricalArrivals,
    GammaArrivals,
    Markov,
    WeibullArrivals,
)
from sim.trace.quantiles import Floats, quantile_function

GRID_PER_PERIOD = 2000
"""Points of a diurnal cycle between which its cumulative rate is taken as linear."""
MAX_SPAN_S = 1e9
"""A trace longer than three decades is a mistake in the rates."""


def arrival_times_ns(
    arrivals: Arrivals,
    *,
    count: int | None = None,
    duration_s: float | None = None,
    seed: int = 0,
    base_dir: Path | None = None,
) -> NDArray[np.int64]:
    """Arrivals in ns from time 0, sorted: the first `count`, or those before `duration_s`, or both."""
    rate = CumulativeRate(arrivals, seed)
    if count is None:
        assert duration_s is not None
        expected = rate.up_to(duration_s)
        count = int(expected + 10 * math.sqrt(expected) + 100)
    while True:
        work = np.cumsum(_unit_gaps(arrivals, count, seed, base_dir))
        if isinstance(arrivals, ConstantArrivals):
            work -= 1  # Equal gaps begin at once.
        if duration_s is None or work[-1] >= rate.up_to(duration_s):
            break
        if len(work) * 2 > 2**31:
            raise ConfigError("arrivals: more than two billion requests")
        count *= 2
    times = rate.inverse(work)
    return np.rint(times[times < (duration_s or math.inf)] * NS_PER_S).astype(np.int64)


def _unit_gaps(arrivals: Arrivals, count: int, seed: int, base_dir: Path | None) -> Floats:
    """Gaps of mean 1; a longer draw under the same seed begins with the shorter one."""
    rng = stream(seed, "trace.arrivals")
    match arrivals:
        case ConstantArrivals():
            return np.ones(count)
        case GammaArrivals(burstiness=shape):
            return rng.standard_gamma(shape, count) / shape
        case WeibullArrivals(shape=shape):
            return rng.weibull(shape, count) / math.gamma(1 + 1 / shape)
        case EmpiricalArrivals():
            gaps = quantile_function(arrivals.quantiles, arrivals.table, arrivals.column, base_dir)
            if not gaps.mean > 0:
                raise ConfigError("arrivals: the measured gaps are all 0")
            return gaps(rng.random(count)) / gaps.mean
        case _:
            return rng.standard_exponential(count)


class CumulativeRate:
    """Expected arrivals up to a time, as a piecewise linear function that grows on demand."""

    def __init__(self, arrivals: Arrivals, seed: int) -> None:
        self._arrivals = arrivals
        self._seed = seed
        self._plain = not (arrivals.diurnal or arrivals.markov or arrivals.curve or arrivals.crowds)
        self._times = np.zeros(1)
        self._work = np.zeros(1)

    def up_to(self, time_s: float) -> float:
        """Expected arrivals in [0, time_s)."""
        if self._plain:
            return time_s * self._arrivals.rate_per_s
        if time_s > self._times[-1]:
            self._build(time_s)
        return float(np.interp(time_s, self._times, self._work))

    def inverse(self, work: Floats) -> Floats:
        """The times by which so many arrivals are expected."""
        if self._plain:
            return work / self._arrivals.rate_per_s
        span = max(self._times[-1], 2 * work[-1] / self._arrivals.rate_per_s, 1.0)
        while self._work[-1] < work[-1]:
            if span > MAX_SPAN_S:
                raise ConfigError("arrivals: the rate is so low that the trace never fills")
            self._build(span)
            span *= 2
        return np.interp(work, self._work, self._times)

    def _build(self, span_s: float) -> None:
        """Edges where the rate changes, and the expected arrivals up to each."""
        arrivals = self._arrivals
        edges = [np.array([0.0, span_s])]
        factors: list[Callable[[Floats], Floats]] = []
        if arrivals.curve is not None:
            curve = arrivals.curve
            edges.append(np.arange(0, span_s, curve.bin_s))
            levels = np.array(curve.multipliers)
            factors.append(lambda t: levels[(t // curve.bin_s).astype(np.int64) % len(levels)])
        if arrivals.markov is not None:
            jumps, rates = markov_path(arrivals.markov, span_s, self._seed)
            edges.append(jumps)
            factors.append(lambda t: rates[np.searchsorted(jumps, t, side="right") - 1])
        for crowd in arrivals.crowds:
            edges.append(np.array([crowd.at_s, crowd.at_s + crowd.duration_s]))
            factors.append(partial(_crowd_factor, crowd))
        if arrivals.diurnal is not None:
            edges.append(np.arange(0, span_s, arrivals.diurnal.period_s / GRID_PER_PERIOD))
        times = np.unique(np.concatenate(edges))
        times = times[times <= span_s]
        width, middle = np.diff(times), (times[:-1] + times[1:]) / 2
        if arrivals.diurnal is not None:
            width = np.diff(_diurnal_integral(arrivals.diurnal, times))
        for factor in factors:
            width = width * factor(middle)
        self._times = times
        self._work = np.concatenate([[0.0], np.cumsum(width * arrivals.rate_per_s)])


def _crowd_factor(crowd: Crowd, times: Floats) -> Floats:
    during = (times >= crowd.at_s) & (times < crowd.at_s + crowd.duration_s)
    return np.where(during, crowd.multiplier, 1.0)


def _diurnal_integral(diurnal: Diurnal, times: Floats) -> Floats:
    turn = 2 * math.pi / diurnal.period_s
    return times + diurnal.amplitude / turn * np.sin(turn * (times - diurnal.peak_s))


def markov_path(markov: Markov, span_s: float, seed: int) -> tuple[Floats, Floats]:
    """Times of the jumps (the first is 0) past span_s, and the multiplier from each on."""
    rng = stream(seed, "trace.markov")
    states = len(markov.multipliers)
    jumps, levels = [0.0], []
    state = int(rng.integers(states))
    while jumps[-1] <= span_s:
        levels.append(markov.multipliers[state])
        jumps.append(jumps[-1] + float(rng.exponential(markov.mean_stay_s[state])))
        state = (state + 1 + int(rng.integers(states - 1))) % states
    return np.array(jumps[:-1]), np.array(levels)
