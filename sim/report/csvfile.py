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
from numpy.typing import NDArray

from sim.core.errors import UserError
from sim.core.units import NS_PER_S

TEXT_COLUMNS = frozenset({"request_id", "status", "reason"})
DOUBLE_COLUMNS = frozenset({"tpot_s", "tbt_s", "quantile"})

Bytes = NDArray[np.uint8]

_CHUNK_ROWS = 20_000


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame`, whose numbers are >= 0; a missing value is an empty field."""
    with path.open("wb") as file:
        file.write(",".join(frame.columns).encode() + b"\n")
        for start in range(0, len(frame), _CHUNK_ROWS):
            part = frame.iloc[start : start + _CHUNK_ROWS]
            file.write(_lines({name: part[name].to_numpy() for name in part.columns}))


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


def _lines(columns: dict[str, Any]) -> bytes:
    """The rows as text, laid out as a matrix of bytes whose zeros are places left empty."""
    rows = len(next(iter(columns.values())))
    comma = np.full((1, rows), ord(","), dtype=np.uint8)
    parts = [part for name, values in columns.items() for part in (_field(name, values), comma)]
    parts[-1] = np.full((1, rows), ord("\n"), dtype=np.uint8)
    text: Bytes = np.ascontiguousarray(np.concatenate(parts).T).ravel()
    filled: Bytes = text[text != 0]
    return filled.tobytes()


def _field(name: str, values: Any) -> Bytes:
    """A column's bytes, shape (width, rows)."""
    if name in TEXT_COLUMNS:
        return _encoded([_quoted(value) for value in values.tolist()])
    if name in DOUBLE_COLUMNS:
        return _encoded(["" if value != value else repr(value) for value in values.tolist()])
    if not is_time(name):
        return _integers(values.astype(np.int64))
    missing = np.isnan(values)
    field = _nanoseconds(np.rint(np.where(missing, 0, values) * NS_PER_S).astype(np.int64))
    field[:, missing] = 0
    return field


def _nanoseconds(times_ns: NDArray[np.int64]) -> Bytes:
    """Seconds with nine decimals; a double holds whole nanoseconds for 26 days and more."""
    whole = times_ns // NS_PER_S
    point = np.full((1, len(times_ns)), ord("."), dtype=np.uint8)
    return np.concatenate([_integers(whole), point, _digits(times_ns - whole * NS_PER_S, 9)])


def _integers(values: NDArray[np.int64]) -> Bytes:
    """Decimal digits without leading zeros."""
    places = len(str(values.max(initial=0)))
    field = _digits(values, places)
    for place in range(places - 1):
        field[place, values < 10 ** (places - 1 - place)] = 0
    return field


def _digits(values: NDArray[np.int64], places: int) -> Bytes:
    """The last `places` decimal digits, leading zeros included."""
    field = np.empty((places, len(values)), dtype=np.uint8)
    for place in reversed(range(places)):
        rest = values // 10
        field[place] = values - rest * 10 + ord("0")
        values = rest
    return field


def _encoded(texts: list[str]) -> Bytes:
    packed = np.array([text.encode() for text in texts], dtype=bytes)
    return packed.view(np.uint8).reshape(len(texts), packed.itemsize).T


def _quoted(value: str | None) -> str:
    if value is None:
        return ""
    value = value.replace("\0", "")
    if any(mark in value for mark in ',"\n\r'):
        return '"' + value.replace('"', '""') + '"'
    return value
