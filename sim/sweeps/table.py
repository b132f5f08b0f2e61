"""Table: outcomes to one tidy frame, a row a cell in grid order, and to a file of the same bytes.

Nothing in it depends on who ran the cells, when or how fast.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sim.config.source import show
from sim.core.errors import UserError
from sim.sweeps.grid import Cell
from sim.sweeps.worker import Outcome


def tidy_frame(cells: Sequence[Cell], outcomes: Mapping[int, Outcome]) -> pd.DataFrame:
    """One row for each of `cells` that has an outcome, in their order.

    Columns: the grid's keys with their values as given, seed, every number of the summary by its
    dotted path, error. A metric that is called like a grid key gives way to it.
    """
    rows = [_row(cell, outcomes[cell.index]) for cell in cells if cell.index in outcomes]
    axes = [*cells[0].point, "seed"]
    metrics = dict.fromkeys(name for row in rows for name in row if name not in (*axes, "error"))
    columns = {name: _column([row.get(name) for row in rows]) for name in (*axes, *metrics)}
    return pd.DataFrame({**columns, "error": pd.array([row["error"] for row in rows], dtype=object)})


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame` as `path` says, .csv or .parquet, whole or not at all."""
    scratch = path.with_name(f".{path.name}.new")
    if path.suffix == ".parquet":
        frame.to_parquet(scratch, index=False)
    else:
        frame.to_csv(scratch, index=False, lineterminator="\n")
    os.replace(scratch, path)


def check_format(file_format: str) -> None:
    """Raise UserError if tables of this format cannot be written here."""
    if file_format == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UserError(
            "output.format: parquet needs the package pyarrow: pip install 'llm-scheduler-sim[parquet]'"
        )


def _row(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    return {**(outcome.metrics or {}), **cell.point, "seed": cell.seed, "error": outcome.error}


def _column(values: list[Any]) -> Any:
    """Numbers as numbers (whole ones whole even beside missing ones), or text; mixtures are text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return pd.array(values, dtype="Int64") if None in values else values
    if kinds <= {int, float}:
        return [float("nan") if value is None else float(value) for value in values]
    if kinds <= {str}:
        return pd.array(values, dtype=object)
    if kinds == {bool} and None not in values:
        return values
    return pd.array([None if value is None else _text(value) for value in values], dtype=object)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else show(value)
