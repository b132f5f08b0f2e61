"""Skew: how much longer attention takes when the decodes' contexts are unequal.

t = t(mean) + alpha * (t(max) - t(mean)), with alpha fitted by bins of the prefill chunk, the number of
decodes, how far the mean lies between shortest and longest, the longest, and the cached prefill.
Owns reading skew_fit.csv with the bins of meta.yaml, and finding alpha.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ProfileError
from sim.cost.csv_table import read_csv
from sim.cost.fields import mapping

AXES = ("n", "kp", "skew_rate", "kv_big")
COLUMNS = {"n": "n_label", "skew_rate": "skew_rate_label", "kv_big": "kv_big_label", "kp": "kp_label"}


class SkewTable:
    """Alphas by bin. `edges` are the upper, inclusive edges of each axis's bins.

    `chunks` are the prefill chunks measured (0 is decode-only); a chunk between two takes the larger.
    `alphas` has the axes (chunk, n, kp, skew_rate, kv_big).
    """

    def __init__(
        self, chunks: list[int], edges: dict[str, list[float]], alphas: NDArray[np.float64]
    ) -> None:
        self._chunks = chunks
        self._edges = tuple(edges[axis] for axis in AXES)
        self._alphas: Any = alphas.tolist()
        self._decode_alphas = alphas[0, :, 0]

    def alpha(
        self, chunk: float, num_decodes: int, cached: float, mean: float, longest: int, shortest: int
    ) -> float:
        """Alpha of one batch, whose contexts are not all equal."""
        by_number, by_cached, by_rate, by_longest = self._edges
        rate = (mean - shortest) / (longest - shortest)
        plane = self._alphas[bisect_left(self._chunks, chunk, 0, len(self._chunks) - 1)][
            bisect_left(by_number, num_decodes, 0, len(by_number) - 1)
        ][bisect_left(by_cached, cached, 0, len(by_cached) - 1)]
        alpha: float = plane[bisect_left(by_rate, rate, 0, len(by_rate) - 1)][
            bisect_left(by_longest, longest, 0, len(by_longest) - 1)
        ]
        return alpha

    def decode_alphas(
        self,
        num_decodes: int,
        means: NDArray[np.float64],
        longest: NDArray[np.int64],
        shortest: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Alphas of decode-only batches, each equal to what `alpha` gives."""
        by_number, _, by_rate, by_longest = self._edges
        plane = self._decode_alphas[bisect_left(by_number, num_decodes, 0, len(by_number) - 1)]
        rates = (means - shortest) / (longest - shortest)
        result: NDArray[np.float64] = plane[
            np.searchsorted(by_rate[:-1], rates), np.searchsorted(by_longest[:-1], longest)
        ]
        return result


def read_skew(folder: Path, meta: Mapping[str, Any], tensor_parallel: int) -> SkewTable | None:
    """The table beside `meta`; None where it is not enabled. ProfileError if it is broken."""
    fit = meta.get("skew_fit")
    if not isinstance(fit, Mapping) or not fit.get("enabled"):
        return None
    where = f"{folder / 'meta.yaml'}: skew_fit"
    axes = mapping(fit.get("bucket_axes"), f"{where}.bucket_axes")
    edges = {axis: _edges(axes, axis, where) for axis in AXES}
    per_tp = mapping(fit.get("per_tp"), f"{where}.per_tp")
    entry = mapping(per_tp.get(str(tensor_parallel)), f"{where}.per_tp.{tensor_parallel}")
    default = entry.get("alpha_default")
    if not isinstance(default, int | float):
        raise ProfileError(f"{where}: alpha_default must be a number, not {default!r}")
    table = read_csv(folder / "skew_fit.csv", ("pc", *COLUMNS.values(), "alpha"))
    bins = {axis: _bins(table.columns[COLUMNS[axis]], axes, axis, table.path) for axis in AXES}
    measured = table.integers("pc")
    chunks = sorted(set(measured))
    shape = (len(chunks), *(len(edges[axis]) for axis in AXES))
    alphas = np.full(shape, float(default))
    place = (np.searchsorted(chunks, measured), *(bins[axis] for axis in AXES))
    # A batch of unequal contexts lies between one of all mean and one of all longest; fits outside
    # that come from bins where the two hardly differ.
    alphas[place] = np.clip(table.numbers("alpha"), 0.0, 1.0)
    return SkewTable(chunks, edges, alphas)


def _edges(axes: Mapping[str, Any], axis: str, where: str) -> list[float]:
    """Upper edges of the bins but the last, which is open: a value above all of them falls in it."""
    bins, labels = axes.get(f"{axis}_bins"), axes.get(f"{axis}_labels")
    if not isinstance(bins, list) or not isinstance(labels, list) or len(bins) != len(labels) + 1:
        raise ProfileError(f"{where}.bucket_axes: {axis}_bins must have one entry more than {axis}_labels")
    return [float(edge) for edge in bins[1:]]


def _bins(labels: list[str], axes: Mapping[str, Any], axis: str, path: Path) -> NDArray[np.int64]:
    index = {str(label): place for place, label in enumerate(axes[f"{axis}_labels"])}
    unknown = [label for label in labels if label not in index]
    if unknown:
        raise ProfileError(f"{path}: {COLUMNS[axis]} {unknown[0]!r} is not among {', '.join(index)}")
    return np.array([index[label] for label in labels])
