"""CSV of a run's frames: fast, the same bytes for the same run, and exact when read back.

Times are whole nanoseconds and are written as such, with nine decimals; derived means (tpot_s and
the quantiles of tbt_s) are not, and are written as the shortest decimal of their double.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.core.errors import UserError
from sim.core.units import NS_PER_S

TEXT_COLUMNS = frozenset({"request_id", "status", "reason"})
DOUBLE_COLUMNS = frozenset({"tpot_s", "tbt_s", "quantile"})

_CHUNK_ROWS = 20_000


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame`; a missing value is an empty field."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(frame.columns) + "\n")
        for start in range(0, len(frame), _CHUNK_ROWS):
            part = frame.iloc[start : start + _CHUNK_ROWS]
            columns = [_texts(name, part[name].to_numpy()) for name in part.columns]
            file.write("\n".join(map(",".join, zip(*columns, strict=True))) + "\n")


def read_csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read what write_csv wrote. UserError if the file is not one of those."""
    kinds = {name: _dtype(name) for name in columns}
    # Only an empty field is missing: a request may well be called "NA" or "null".
    missing = {name: [""] for name in columns if name != "request_id"}
    try:
        frame = pd.read_csv(
            path,
            dtype=kinds,
            keep_default_na=False,
            na_values=missing,
            usecols=list(columns),
        )
    except (ValueError, OSError, pd.errors.ParserError) as error:
        raise UserError(f"{path}: not a file of a run folder: {error}") from error
    for name in columns:
        if is_time(name):
            # pandas may be one unit in the last place off; the whole nanosecond is not in doubt.
            frame[name] = np.rint(frame[name] * NS_PER_S) / NS_PER_S
        elif name in DOUBLE_COLUMNS:
            frame[name] = frame[name].astype(np.float64)  # through Python's exact float()
        elif name == "reason":
            frame[name] = frame[name].where(frame[name].notna(), None)
    return frame[list(columns)]


def is_time(name: str) -> bool:
    """Whether the column holds whole nanoseconds, shown in seconds."""
    return name.endswith("_s") and name not in DOUBLE_COLUMNS


def _dtype(name: str) -> Any:
    if name in TEXT_COLUMNS or name in DOUBLE_COLUMNS:
        return object
    return np.float64 if is_time(name) else np.int64


def _texts(name: str, values: Any) -> list[str]:
    if name in TEXT_COLUMNS:
        return [_quoted(value) for value in values.tolist()]
    if not is_time(name) and name not in DOUBLE_COLUMNS:
        return list(map(str, values.tolist()))
    missing = np.isnan(values)
    if is_time(name):
        texts = _decimals(np.where(missing, 0, values))
    else:
        texts = list(map(repr, values.tolist()))
    for row in np.flatnonzero(missing).tolist():
        texts[row] = ""
    return texts


def _decimals(seconds: Any) -> list[str]:
    """Seconds as exact nanosecond decimals (a double holds whole nanoseconds for 26 days and more)."""
    whole, part = np.divmod(np.rint(seconds * NS_PER_S).astype(np.int64), NS_PER_S)
    flat = np.column_stack((whole, part)).ravel().tolist()
    # One format call for the column is several times faster than one a value.
    return ("%d.%09d\n" * len(whole) % tuple(flat)).splitlines()


def _quoted(value: str | None) -> str:
    if value is None:
        return ""
    if any(mark in value for mark in ',"\n\r'):
        return '"' + value.replace('"', '""') + '"'
    return value
