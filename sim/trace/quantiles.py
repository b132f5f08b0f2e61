"""Quantile functions: piecewise linear between measured points, given inline or in a CSV table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import ConfigError, suggestion

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class QuantileFunction:
    """Value at each probability; both rise, the probabilities from 0 to 1."""

    probabilities: Floats
    values: Floats

    def __call__(self, uniform: Floats) -> Floats:
        """The values at these probabilities."""
        return np.interp(uniform, self.probabilities, self.values)

    @property
    def mean(self) -> float:
        """The mean of the distribution: the exact integral of the piecewise linear function."""
        middles = (self.values[1:] + self.values[:-1]) / 2
        return float((middles * np.diff(self.probabilities)).sum())


def quantile_function(
    quantiles: tuple[tuple[float, float], ...], table: str | None, column: str, base_dir: Path | None
) -> QuantileFunction:
    """From inline points, or from a column of a table; ConfigError if the table is wrong."""
    if table is None:
        probabilities, values = np.array(quantiles, dtype=np.float64).T
        return QuantileFunction(probabilities, values)
    return read_table(_found(table, base_dir), column)


def _found(table: str, base_dir: Path | None) -> Path:
    """A relative path is looked for beside the file that names it, then in the current folder."""
    beside = Path(table) if base_dir is None else base_dir / table
    return beside if beside.exists() else Path(table)


def read_table(path: Path, column: str) -> QuantileFunction:
    """Column `column` of a CSV file with a column `quantile`; `#` lines are comments."""
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    except OSError as error:
        raise ConfigError(f"cannot read quantile table {path}: {error.strerror}") from None
    rows = list(csv.DictReader(lines))
    names = list(rows[0]) if rows else []
    for name in ("quantile", column):
        if name not in names:
            raise ConfigError(f"quantile table {path} has no column {name!r}: {suggestion(name, names)}")
    try:
        points = np.array([[float(row["quantile"]), float(row[column])] for row in rows])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"quantile table {path}: {error}") from None
    probabilities, values = points.T
    rising = (np.diff(points, axis=0) >= 0).all()
    if not rising or probabilities[0] != 0 or probabilities[-1] != 1 or values[0] < 0:
        raise ConfigError(
            f"quantile table {path}: quantile must go from 0 to 1 and {column} must not fall or be negative"
        )
    return QuantileFunction(probabilities, values)
