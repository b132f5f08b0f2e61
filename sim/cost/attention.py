"""Attention: measured times of one iteration's attention, all layers, between and beyond grid points.

Owns two surfaces: decodes alone (number x context), and a prefill chunk with or without decodes
beside it (chunk x cached x number x context). Linear between points; outside the grid the nearest
point's time is scaled by the work of the roofline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cost.line import Line

Table = NDArray[np.float64]


class DecodeSurface:
    """Decode-only attention: `table` in microseconds by (number of decodes, context of each)."""

    def __init__(self, decodes: Sequence[int], contexts: Sequence[int], table: Table) -> None:
        self.decodes = list(decodes)
        self.contexts = list(contexts)
        self._table = table
        self._lines: dict[int, Line] = {}

    def line(self, num_decodes: int) -> Line:
        """Microseconds by mean context, for that many decodes; more than measured in proportion."""
        known = self._lines.get(num_decodes)
        if known is None:
            known = self._lines[num_decodes] = Line(self.contexts, self._row(num_decodes))
        return known

    def _row(self, num_decodes: int) -> list[float]:
        largest = self.decodes[-1]
        row: NDArray[np.float64]
        if num_decodes >= largest:
            row = self._table[-1] * (num_decodes / largest)
        else:
            row = np.array([np.interp(num_decodes, self.decodes, column) for column in self._table.T])
        return [float(value) for value in row]


@dataclass(frozen=True, slots=True)
class Work:
    """What attention costs on the roofline, in microseconds: the slope outside the grid."""

    pair_us: float
    kv_token_us: float

    def of(self, chunk: float, cached: float, decodes: float, context: float) -> float:
        """Of a chunk over cached tokens beside decodes that read `context` each."""
        return self.pair_us * chunk * (cached + (chunk + 1) / 2) + self.kv_token_us * decodes * context


class MixedSurface:
    """Attention of an iteration with prefill; axis `decodes` starts at 0, which is prefill only.

    `table` has the axes (chunk, cached, decodes, context), without holes (see fill_holes).
    """

    def __init__(self, axes: Sequence[Sequence[int]], table: Table, work: Work) -> None:
        self.decodes = [float(value) for value in axes[2]]
        self._work = work
        self._first = tuple(float(axis[0]) for axis in axes)
        self._last = tuple(float(axis[-1]) for axis in axes)
        # A second point beyond an axis of one, so that every look-up lies between two.
        for place in (0, 1, 3):
            if len(axes[place]) == 1:
                table = np.repeat(table, 2, axis=place)
        self.chunks, self.cached, self.contexts = (
            [*map(float, axis), axis[0] + 1.0] if len(axis) == 1 else [float(value) for value in axis]
            for axis in (axes[0], axes[1], axes[3])
        )
        self._by_decodes = table.transpose(2, 0, 1, 3)
        self._slices: dict[int, list[list[list[float]]]] = {}

    def at(
        self, chunk: float, cached: float, decodes: int, mean: float, longest: float
    ) -> tuple[float, float]:
        """Microseconds at the mean context and at the longest one, which is at least the mean.

        Outside the grid: the nearest point's time, scaled by the work of the batch over that point's.
        """
        first, last = self._first, self._last
        if (
            first[0] <= chunk <= last[0]
            and cached <= last[1]
            and decodes <= last[2]
            and first[3] <= mean
            and longest <= last[3]
        ):
            return self._inside(chunk, cached, decodes, mean, longest)
        times = []
        for context in (mean, longest):
            point = (chunk, cached, decodes, context)
            edge = [min(max(value, low), high) for value, low, high in zip(point, first, last, strict=True)]
            time_us, _ = self._inside(edge[0], edge[1], int(edge[2]), edge[3], edge[3])
            beyond = map(max, point, edge)
            times.append(time_us * self._work.of(*beyond) / self._work.of(*edge))
        return times[0], times[1]

    def alone(self, chunk: float, cached: float) -> float:
        """Microseconds without decodes."""
        context = self.contexts[0]
        return self.at(chunk, cached, 0, context, context)[0]

    def _inside(
        self, chunk: float, cached: float, decodes: int, mean: float, longest: float
    ) -> tuple[float, float]:
        """`at` for a point of the grid's range. Written out, since this is the inner loop."""
        rows = self._slices.get(decodes) or self._slice(decodes)
        axis = self.chunks
        low = bisect_right(axis, chunk, 1, len(axis) - 1) - 1
        right = (chunk - axis[low]) / (axis[low + 1] - axis[low])
        near, far = rows[low], rows[low + 1]
        axis = self.cached
        low = bisect_right(axis, cached, 1, len(axis) - 1) - 1
        up = (cached - axis[low]) / (axis[low + 1] - axis[low])
        a, b, c, d = near[low], near[low + 1], far[low], far[low + 1]
        weight_d = right * up
        weight_c = right - weight_d
        weight_b = up - weight_d
        weight_a = 1.0 - right - weight_b
        axis = self.contexts
        low = bisect_right(axis, mean, 1, len(axis) - 1) - 1
        high = low + 1
        share = (mean - axis[low]) / (axis[high] - axis[low])
        below = weight_a * a[low] + weight_b * b[low] + weight_c * c[low] + weight_d * d[low]
        above = weight_a * a[high] + weight_b * b[high] + weight_c * c[high] + weight_d * d[high]
        at_mean = below + (above - below) * share
        if longest == mean:
            return at_mean, at_mean
        low = bisect_right(axis, longest, 1, len(axis) - 1) - 1
        high = low + 1
        share = (longest - axis[low]) / (axis[high] - axis[low])
        below = weight_a * a[low] + weight_b * b[low] + weight_c * c[low] + weight_d * d[low]
        above = weight_a * a[high] + weight_b * b[high] + weight_c * c[high] + weight_d * d[high]
        return at_mean, below + (above - below) * share

    def _slice(self, decodes: int) -> list[list[list[float]]]:
        """The table at one number of decodes, as lists, which are quicker to index than arrays."""
        axis = self.decodes
        low = max(bisect_right(axis, decodes, 0, len(axis) - 1) - 1, 0)
        high = min(low + 1, len(axis) - 1)
        share = (decodes - axis[low]) / (axis[high] - axis[low]) if high > low else 0.0
        table = (1.0 - share) * self._by_decodes[low] + share * self._by_decodes[high]
        slices: list[list[list[float]]] = table.tolist()
        self._slices[decodes] = slices
        return slices


def grid_of(points: Mapping[Any, float]) -> tuple[list[list[int]], Table]:
    """Axes and table over all values met on each axis; NaN where nothing was measured."""
    axes = [sorted(set(values)) for values in zip(*points, strict=True)]
    table = np.full([len(axis) for axis in axes], np.nan)
    index = [{value: place for place, value in enumerate(axis)} for axis in axes]
    for point, time in points.items():
        table[tuple(places[value] for places, value in zip(index, point, strict=True))] = time
    return axes, table


def fill_holes(axes: Sequence[Sequence[int]], table: Table, order: Sequence[int]) -> Table:
    """`table` with holes filled linearly along the axes in `order`, inside what each line measured.

    What no line encloses takes the value of the nearest point along the last axes of `order`.
    """
    filled = table.copy()
    for outside in (False, True):
        for axis in order:
            if not np.isnan(filled).any():
                return filled
            _fill_along(np.array(axes[axis], dtype=float), np.moveaxis(filled, axis, -1), outside)
    return filled


def _fill_along(knots: NDArray[np.float64], lines: Table, outside: bool) -> None:
    """Fill each line of the last axis in place; beyond its measured ends only if `outside`."""
    missing = np.isnan(lines)
    for place in zip(*np.nonzero(missing.any(axis=-1) & ~missing.all(axis=-1)), strict=True):
        holes = missing[place]
        known = knots[~holes]
        inside = holes & (knots > known[0]) & (knots < known[-1])
        wanted = holes if outside else inside
        line = lines[place]
        line[wanted] = np.interp(knots[wanted], known, line[~holes])
