"""How well a model stands for a trace: the real trace beside one made by the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.trace.stats import dispersion, gap_cv, ks_distance, ks_p_value, spearman

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Fitness:
    """One comparison. `ks` and `p_value` are of whole distributions, None for single figures."""

    figure: str
    real: float | None
    model: float | None
    ks: float | None = None
    """Kolmogorov-Smirnov distance, 0 to 1."""
    p_value: float | None = None
    """Chance of so large a distance if both were drawn from one distribution."""


def goodness_of_fit(real: Trace, model: Trace) -> list[Fitness]:
    """Means, tails and distances of lengths and gaps; burstiness and rank correlation."""
    rows: list[Fitness] = []
    rows += _distribution("prompt_tokens", real.prompt_tokens, model.prompt_tokens)
    rows += _distribution("output_tokens", real.output_tokens, model.output_tokens)
    rows += _distribution(
        "prompt+output", real.prompt_tokens + real.output_tokens, model.prompt_tokens + model.output_tokens
    )
    rows += _distribution("gap_s", np.diff(real.arrival_ns) / NS_PER_S, np.diff(model.arrival_ns) / NS_PER_S)
    rows.append(Fitness("requests_per_s", _rate(real), _rate(model)))
    rows.append(Fitness("gap CV", gap_cv(real.arrival_ns), gap_cv(model.arrival_ns)))
    for window_s in (1.0, 10.0, 60.0):
        rows.append(
            Fitness(
                f"dispersion in {window_s:g} s",
                dispersion(real.arrival_ns, window_s),
                dispersion(model.arrival_ns, window_s),
            )
        )
    rows.append(
        Fitness(
            "prompt/output rank correlation",
            spearman(real.prompt_tokens, real.output_tokens),
            spearman(model.prompt_tokens, model.output_tokens),
        )
    )
    return rows


def _distribution(name: str, real: Numbers, model: Numbers) -> list[Fitness]:
    distance = ks_distance(real, model)
    chance = ks_p_value(distance, len(real), len(model))
    rows = [Fitness(f"{name} mean", float(np.mean(real)), float(np.mean(model)), distance, chance)]
    for percent in (50, 99):
        values = (float(np.percentile(column, percent)) for column in (real, model))
        rows.append(Fitness(f"{name} p{percent}", *values))
    return rows


def _rate(trace: Trace) -> float | None:
    span = int(trace.arrival_ns[-1])
    return (len(trace) - 1) * NS_PER_S / span if span else None
