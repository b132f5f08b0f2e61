"""Held-out errors: how well a model predicts grid lines it never saw.

One value of one axis is left out at a time, with every row that has it; the rest predict it. That is
harder, and closer to use, than leaving out single rows whose neighbours stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.core.protocols import CostModel
from sim.cost.calibration.rows import KINDS, MeasuredRow

Fit = Callable[[Sequence[MeasuredRow]], CostModel]
MOST_LINES = 12
"""Lines left out an axis, evenly chosen; beyond that the fits take long and tell little more."""


class Prediction(NamedTuple):
    """A row and what was predicted for it unseen."""

    row: MeasuredRow
    predicted_us: float

    @property
    def error(self) -> float:
        """Signed relative error."""
        return self.predicted_us / self.row.time_us - 1


def held_out_predictions(rows: Sequence[MeasuredRow], fit: Fit) -> list[Prediction]:
    """Each row of each line left out, predicted by `fit` of the rows outside that line.

    The outermost lines of an axis stay in: leaving them out would measure extrapolation. An axis
    with fewer than four values has no line to leave out.
    """
    predictions = []
    for kind, axis, value in _lines(rows):
        unseen = [row for row in rows if _family(row) == kind and (axis, value) in row.lines]
        left_out = set(map(id, unseen))
        model = fit([row for row in rows if id(row) not in left_out])
        predictions += predict(model, unseen)
    return predictions


def predict(model: CostModel, rows: Iterable[MeasuredRow]) -> list[Prediction]:
    """The model's answers for the rows."""
    return [Prediction(row, model.iteration_ns(row.batch) / 1000) for row in rows]


def error_table(predictions: Sequence[Prediction]) -> dict[str, dict[str, Any]]:
    """Per kind of row: number, median and 95th percentile of the absolute relative error, worst row."""
    table: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        chosen = [prediction for prediction in predictions if prediction.row.kind == kind]
        if not chosen:
            continue
        errors = np.abs([prediction.error for prediction in chosen])
        worst = chosen[int(errors.argmax())]
        table[kind] = {
            "rows": len(chosen),
            "median_pct": round(100 * float(np.median(errors)), 2),
            "p95_pct": round(100 * float(np.percentile(errors, 95)), 2),
            "worst_pct": round(100 * worst.error, 1),
            "worst_row": f"{worst.row.describe()} ({worst.row.where})",
        }
    return table


def _family(row: MeasuredRow) -> str:
    return "decode" if row.kind == "decode" else "with prefill"


def _lines(rows: Sequence[MeasuredRow]) -> list[tuple[str, str, int]]:
    """(family, axis, value) of the lines to leave out."""
    values: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        for axis, value in row.lines:
            values.setdefault((_family(row), axis), set()).add(value)
    lines = []
    for (family, axis), found in sorted(values.items()):
        inner = sorted(found)[1:-1]
        if len(inner) >= 2:
            step = max(1, -(-len(inner) // MOST_LINES))
            lines += [(family, axis, value) for value in inner[::step]]
    return lines
