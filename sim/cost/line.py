"""Line: a piecewise linear function with measured knots, for one value or for many, bit for bit alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Line:
    """Straight pieces through (knot, value), constant before the first knot.

    Beyond the last knot it goes on in proportion to the argument: twice the last knot, twice the
    last value. That is the roofline's slope for anything limited by moving or computing `argument`
    units, and never turns down as a polynomial may.
    """

    __slots__ = ("_arrays", "_knots", "_slopes", "_starts", "_values")

    def __init__(self, knots: Sequence[float], values: Sequence[float]) -> None:
        steps = [
            (high - low) / (right - left)
            for low, high, left, right in zip(values, values[1:], knots, knots[1:], strict=False)
        ]
        self._knots = [float(knot) for knot in knots]
        self._starts = [self._knots[0], *self._knots]
        self._values = [float(value) for value in (values[0], *values)]
        self._slopes = [0.0, *steps, values[-1] / knots[-1] if knots[-1] else 0.0]
        self._arrays: tuple[NDArray[np.float64], ...] | None = None

    def at(self, argument: float) -> float:
        """The value at `argument`."""
        piece = bisect_right(self._knots, argument)
        return self._values[piece] + (argument - self._starts[piece]) * self._slopes[piece]

    def over(self, arguments: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        """The values at `arguments`, each equal to what `at` gives."""
        if self._arrays is None:
            parts = (self._knots, self._values, self._starts, self._slopes)
            self._arrays = tuple(np.array(part) for part in parts)
        knots, values, starts, slopes = self._arrays
        piece = np.searchsorted(knots, arguments, side="right")
        result: NDArray[np.float64] = values[piece] + (arguments - starts[piece]) * slopes[piece]
        return result
