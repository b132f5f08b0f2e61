"""Reading CSV in chunks of text columns, with the line number of every row."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import TraceError, suggestion
from sim.trace.raw import Lines
from sim.trace.source import TraceSource

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 500_000


class Chunk:
    """Some rows of a CSV file. `chunk[name]` is a column of str; `line` counts from 1."""

    def __init__(self, columns: dict[str, NDArray[np.object_]], line: Lines) -> None:
        self._columns = columns
        self.line = line

    def __getitem__(self, name: str) -> NDArray[np.object_]:
        return self._columns[name]

    def get(self, name: str) -> NDArray[np.object_] | None:
        """The column, or None if the file does not have it."""
        return self._columns.get(name)


def find_column(source: TraceSource, *names: str) -> str | None:
    """The first of `names` that the file has, in its spelling; case and blanks do not matter."""
    spelled = {_plain(column): column for column in source.header}
    return next((spelled[_plain(name)] for name in names if _plain(name) in spelled), None)


def need_column(source: TraceSource, *names: str) -> str:
    """As find_column; TraceError if the file has none of them."""
    found = find_column(source, *names)
    if found is None:
        near = suggestion(names[0], source.header) if source.header else "the file has no header"
        raise TraceError(f"{source.path}: no column {names[0]!r}: {near}")
    return found


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def read_chunks(
    source: TraceSource, columns: Sequence[str | None], done: Callable[[], bool]
) -> Iterator[Chunk]:
    """The named columns (None is skipped) in chunks, until the end or until `done()`.

    Empty lines are skipped; `#` lines are skipped before the header. TraceError for a row with more
    fields than the header.
    """
    wanted = [name for name in columns if name is not None]
    skipped = _lines_before_header(source)
    with source.open_text() as file:
        for _ in range(skipped):
            file.readline()
        first = skipped + 2
        for frame in _frames(source, file, skipped):
            line = np.arange(first, first + len(frame), dtype=np.int64)
            first += len(frame)
            texts = {name: frame[name].fillna("").to_numpy(dtype=object) for name in wanted}
            blank = np.logical_and.reduce([column == "" for column in texts.values()])
            if blank.any():
                texts = {name: column[~blank] for name, column in texts.items()}
            yield Chunk(texts, line[~blank])
            if done():
                return


def _frames(source: TraceSource, file: TextIO, skipped: int) -> Iterator[pd.DataFrame]:
    """Chunks of all columns as str. Every field is looked at, or pandas would not miss the extra ones.

    `skipped` lines of the file were read before.
    """
    import pandas as pd

    try:
        reader = pd.read_csv(
            file,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            chunksize=CHUNK_ROWS,
            skipinitialspace=True,
            index_col=False,
        )
        while True:
            with warnings.catch_warnings():
                # a first row that is too long is only worth a warning to pandas
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = next(reader, None)
            if frame is None:
                return
            yield frame.rename(columns=str.strip)
    except pd.errors.ParserWarning:
        more = f"more fields than the header, which has {len(source.header)}"
        raise TraceError(f"{source.path}: line {skipped + 2}: {more}") from None
    except pd.errors.ParserError as error:
        raise TraceError(f"{source.path}: {_told(error, skipped)}") from None
    except pd.errors.EmptyDataError:
        raise TraceError(f"{source.path}: the file is empty") from None


def _told(error: Exception, skipped: int) -> str:
    """The parser's words with the line of the file in front."""
    text = str(error).strip().removeprefix("Error tokenizing data. C error: ")
    ragged = re.fullmatch(r"Expected (\d+) fields in line (\d+), saw (\d+)", text)
    if ragged is None:
        return f"not a CSV file: {text}"
    expected, line, found = map(int, ragged.groups())
    return f"line {line + skipped}: {found} fields, but the header has {expected}"


def _lines_before_header(source: TraceSource) -> int:
    for count, line in enumerate(source.head.splitlines()):
        if line.strip() and not line.lstrip().startswith("#"):
            return count
    raise TraceError(f"{source.path}: the file is empty")
