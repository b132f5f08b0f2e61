"""CsvTable: a measured table as columns of numbers, checked row by row.

Owns naming what is wrong by file, row and value. What the columns mean is the reader's business.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.core.errors import ProfileError, suggestion

LARGEST_STEP = 30.0
"""A time this many times its neighbours' is taken for a wrong unit."""
FIRST_ROW = 2
"""Row numbers in messages count the header as row 1, as spreadsheets do."""


@dataclass(frozen=True)
class CsvTable:
    """Columns of one file in file order; `rows[i]` is the row number of entry i in the file."""

    path: Path
    columns: dict[str, list[str]]
    rows: list[int]

    def integers(self, name: str, minimum: int = 0) -> list[int]:
        """The column as whole numbers of at least `minimum`."""
        numbers = []
        for row, text in zip(self.rows, self.columns[name], strict=True):
            try:
                number = int(text)
            except ValueError:
                raise self.error(row, f"{name} must be a whole number, not {text!r}") from None
            if number < minimum:
                raise self.error(row, f"{name} must be at least {minimum}, not {number}")
            numbers.append(number)
        return numbers

    def numbers(self, name: str) -> list[float]:
        """The column as finite numbers."""
        numbers = []
        for row, text in zip(self.rows, self.columns[name], strict=True):
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise self.error(row, f"{name} must be a number, not {text!r}")
            numbers.append(number)
        return numbers

    def times(self, name: str, unit_us: float = 1.0) -> list[float]:
        """The column as positive finite times, each times `unit_us`, in microseconds."""
        times = self.numbers(name)
        for row, time in zip(self.rows, times, strict=True):
            if time <= 0:
                raise self.error(row, f"{name} must be above 0, not {time:g}")
        return [time * unit_us for time in times]

    def error(self, row: int, message: str) -> ProfileError:
        """A ProfileError that names the file and the row."""
        return ProfileError(f"{self.path}: row {row}: {message}")


def read_csv(path: Path, required: Sequence[str]) -> CsvTable:
    """The file's columns as text; ProfileError if unreadable, empty, ragged or without `required`."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read: {error}") from error
    if not lines:
        raise ProfileError(f"{path}: is empty; expected the columns {', '.join(required)}")
    header = [name.strip() for name in lines[0]]
    missing = [name for name in required if name not in header]
    if missing:
        raise ProfileError(f"{path}: column {missing[0]!r} is missing: {suggestion(missing[0], header)}")
    if len(lines) == 1:
        raise ProfileError(f"{path}: has a header and no rows")
    rows = [number for number, line in enumerate(lines[1:], FIRST_ROW) if line]
    for number in rows:
        if len(lines[number - 1]) != len(header):
            raise ProfileError(
                f"{path}: row {number}: has {len(lines[number - 1])} values, the header has {len(header)}"
            )
    filled = [line for line in lines[1:] if line]
    columns = dict(zip(header, map(list, zip(*filled, strict=True)), strict=True))
    return CsvTable(path, columns, rows)


def check_distinct(table: CsvTable, keys: Sequence[tuple[object, ...]], what: str) -> None:
    """Raise if two rows measure the same point."""
    seen: dict[tuple[object, ...], int] = {}
    for row, key in zip(table.rows, keys, strict=True):
        if key in seen:
            shown = ", ".join(str(part) for part in key)
            raise table.error(row, f"measures the same {what} ({shown}) as row {seen[key]}")
        seen[key] = row


def check_units(
    table: CsvTable, rows: Sequence[tuple[tuple[object, ...], int, float, int]], axis: str
) -> None:
    """Raise at a time that its neighbours on its line do not explain: one in another unit, say.

    `rows` are (line, position on `axis`, microseconds, row number). Inner points are blamed first, since
    a wrong one makes its neighbours at the ends look wrong too.
    """
    lines: dict[tuple[object, ...], list[tuple[int, float, int]]] = {}
    for line, position, time, row in rows:
        lines.setdefault(line, []).append((position, time, row))
    suspects = []
    for line, points in lines.items():
        points.sort()
        times = [time for _, time, _ in points]
        for place, (position, time, row) in enumerate(points):
            beside = times[max(place - 1, 0) : place] + times[place + 1 : place + 2]
            if beside and not min(beside) / LARGEST_STEP < time < max(beside) * LARGEST_STEP:
                suspects.append((len(beside) < 2, row, time, position, line, beside))
    if suspects:
        _, row, time, position, line, beside = min(suspects)
        named = ", ".join(str(part) for part in line)
        raise table.error(
            row,
            f"time_us is {time:g} at {axis} {position} ({named}), beside "
            f"{' and '.join(f'{other:g}' for other in beside)}; is the unit microseconds?",
        )
