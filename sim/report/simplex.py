"""Simplex: the largest reward . x under A x <= limits and x >= 0, for few unknowns and many rows.

Owns one textbook algorithm (Dantzig's, on the dictionary), so that bounds need no solver package.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

ZERO = 1e-12
MAX_PIVOTS = 1_000


def maximise(reward: Vector, rows: NDArray[np.float64], limits: Vector) -> Vector:
    """The x. All `limits` must be >= 0, so that x = 0 is allowed, and x bounded in every direction of gain.

    Entries should be of the size of 1. Stops early, at an x that is allowed, if progress stops.
    """
    unknowns = len(reward)
    table = np.column_stack([rows, limits]).astype(np.float64)
    gain = np.append(reward, 0.0)
    outside = list(range(unknowns))  # the variable of each column; rows are numbered after the unknowns
    inside = list(range(unknowns, unknowns + len(rows)))
    for _ in range(MAX_PIVOTS):
        column = int(np.argmax(gain[:-1]))
        if gain[column] <= ZERO:
            break
        rising = table[:, column] > ZERO
        if not rising.any():
            raise ValueError("the reward has no bound")
        room = np.full(len(rows), np.inf)
        room[rising] = table[rising, -1] / table[rising, column]
        row = int(np.argmin(room))
        _pivot(table, gain, row, column)
        inside[row], outside[column] = outside[column], inside[row]
    found = np.zeros(unknowns)
    for place, variable in enumerate(inside):
        if variable < unknowns:
            found[variable] = max(table[place, -1], 0.0)
    return found


def _pivot(table: NDArray[np.float64], gain: Vector, row: int, column: int) -> None:
    """Exchange the variables of `row` and `column`, in place."""
    pivot = table[row, column]
    others = table[:, column].copy()
    others[row] = 0.0
    table[row] /= pivot
    table[row, column] = 1.0 / pivot
    table -= np.outer(others, table[row])
    table[:, column] = -others / pivot
    table[row, column] = 1.0 / pivot
    loss = gain[column]
    gain -= loss * table[row]
    gain[column] = -loss / pivot
