"""RawTrace: what a format reads from a file, before it becomes a Trace.

Owns collecting columns chunk by chunk and checking tokens; leaves order, origin and selection to
sim/trace/select.py. Nothing is lost silently: rows left out are counted by reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import TraceError
from sim.trace.decimals import INT64_MAX, Numbers, read_decimals

Lines = NDArray[np.int64]

MOST_TOKENS = 10**9
"""Of one count: far beyond any model, and small enough that sums over a trace fit int64."""


@dataclass
class RawTrace:
    """Columns as they stand in the file; `arrival_ns` on the file's own clock.

    Each list holds one array (or list) a chunk. A column is either given for every chunk or never.
    """

    path: Path
    limit: int | None = None
    """Reading may stop once this many rows are in."""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    notices: list[str] = field(default_factory=list)
    hash_block_tokens: int | None = None
    rows: int = 0
    without_times: bool = False
    """Whether the file says nothing of arrivals, so that all are 0."""

    @property
    def full(self) -> bool:
        """Whether reading further is of no use."""
        return self.limit is not None and self.rows >= self.limit

    def add(self, keep: NDArray[np.bool_] | None = None, **columns: Any) -> None:
        """Append a chunk: `line`, `arrival_ns`, `prompt_tokens`, `output_tokens`, optional ones.

        `keep` chooses rows. None for a column means that the file does not have it.
        """
        for name, values in columns.items():
            if values is None:
                continue
            if keep is not None and not keep.all():
                values = _chosen(values, keep)
            self.columns.setdefault(name, []).append(values)
        self.rows = sum(len(chunk) for chunk in self.columns["line"])

    def drop(self, reason: str, count: int = 1) -> None:
        """Count rows left out."""
        if count:
            self.dropped[reason] += int(count)

    def no_times(self, rows: int) -> NDArray[np.int64]:
        """Arrivals of a file that has none: all at 0, and remembered."""
        self.without_times = True
        return np.zeros(rows, dtype=np.int64)

    def fail(self, line: int, message: str) -> NoReturn:
        """Raise TraceError naming the file and the line."""
        raise TraceError(f"{self.path}: line {line}: {message}")

    def tokens(
        self, name: str, numbers: Numbers, lines: Lines, minimum: int = 1, maximum: int = MOST_TOKENS
    ) -> NDArray[np.int64]:
        """A column of counts; TraceError at the first that is no integer from `minimum` to `maximum`."""
        read = read_decimals(numbers, 0)
        bad = ~(read.valid & read.exact) | (read.values < minimum) | (read.values > maximum)
        if bad.any():
            row = int(np.argmax(bad))
            allowed = f"expected an integer >= {minimum} and <= {maximum}"
            self.fail(int(lines[row]), f"{name}: {_shown(numbers[row])}; {allowed}")
        return read.values

    def times(self, name: str, numbers: Numbers, lines: Lines, places: int) -> NDArray[np.int64]:
        """A column of times as integer ns; `places` is 9 for seconds, 6 for ms, 3 for us, 0 for ns."""
        read = read_decimals(numbers, places)
        if not read.valid.all():
            row = int(np.argmin(read.valid))
            unit = {9: "seconds", 6: "milliseconds", 3: "microseconds", 0: "nanoseconds"}[places]
            most = f"at most {INT64_MAX / 10**places:.2g}"
            allowed = f"expected a finite number of {unit}, {most}"
            self.fail(int(lines[row]), f"{name}: {_shown(numbers[row])}; {allowed}")
        return read.values


def _shown(value: Any) -> str:
    return "is empty" if value is None or value == "" or value != value else f"{value!r}"


def _chosen(values: Any, keep: NDArray[np.bool_]) -> Any:
    if isinstance(values, np.ndarray):
        return values[keep]
    return [value for value, kept in zip(values, keep.tolist(), strict=True) if kept]
