"""Efficiency: the roofline's factors, fitted to measurements of one or several machines.

Coordinate search on the median absolute relative error of every kind of row of every machine, each
counting alike: six numbers, a cost without gradient, and no package needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from sim.cost.calibration.rows import KINDS, MeasuredRow
from sim.cost.catalogue import Gpu, ModelShape
from sim.cost.roofline import Efficiency, Roofline, RooflineModel

Machine = tuple[ModelShape, Gpu, int, Sequence[MeasuredRow]]

STEPS = (0.5, 0.8, 0.9, 0.97, 1.03, 1.1, 1.25, 2.0)
LIMITS = {"attention_compute": 0.7, "layer_us": 500.0, "iteration_us": 50_000.0}
"""Largest values; other shares of a peak end at 1. No attention kernel is known to pass 0.7 or so, and
where it is a small part of the rows the fit would not care."""
MOST_ROUNDS = 12
ROWS_A_KIND = 60


def fit_efficiency(machines: Sequence[Machine]) -> Efficiency:
    """The factors with the smallest mean, over machines and kinds of row, of the median error."""
    thinned = [
        (shape, gpu, parallel, _thinned(rows, kind))
        for shape, gpu, parallel, rows in machines
        for kind in KINDS
        if any(row.kind == kind for row in rows)
    ]
    best = Efficiency()
    error = _error(best, thinned)
    for _ in range(MOST_ROUNDS):
        before = error
        for field in fields(Efficiency):
            for step in STEPS:
                value = min(getattr(best, field.name) * step, LIMITS.get(field.name, 1.0))
                trial = replace(best, **{field.name: float(f"{value:.4g}")})
                found = _error(trial, thinned)
                if found < error:
                    best, error = trial, found
        if error > 0.999 * before:
            break
    return best


def _thinned(rows: Sequence[MeasuredRow], kind: str) -> list[MeasuredRow]:
    chosen = [row for row in rows if row.kind == kind]
    return chosen[:: max(1, len(chosen) // ROWS_A_KIND)]


def _error(efficiency: Efficiency, machines: Sequence[Machine]) -> float:
    medians = []
    for shape, gpu, parallel, rows in machines:
        model = RooflineModel(Roofline(shape, gpu, parallel, efficiency))
        errors = [abs(model.iteration_ns(row.batch) / 1000 / row.time_us - 1) for row in rows]
        medians.append(float(np.median(errors)))
    return float(np.mean(medians))
