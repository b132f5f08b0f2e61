"""Parquet with the columns of the plain format (needs pyarrow)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import TraceError, suggestion
from sim.trace.csv_rows import Chunk
from sim.trace.formats import TraceFormat, plain
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

BATCH_ROWS = 500_000


def detect(source: TraceSource) -> bool:
    """Whether the file is Parquet at all."""
    return source.is_parquet


def read(source: TraceSource, raw: RawTrace) -> None:
    """Numbers may be of any numeric type; arrivals may be timestamps in a column arrival_time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise TraceError(f"{source.path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    with source.open_bytes() as opened:
        try:
            file = parquet.ParquetFile(opened)
            _add_batches(raw, file, _columns(source, file.schema_arrow.names))
        except pa.ArrowException as error:
            raise TraceError(f"cannot read trace {source.path}: {error}") from None


def _columns(source: TraceSource, names: list[str]) -> list[str]:
    """The columns to read, the time first."""
    time = next((name for name in (*plain.TIMES, "arrival_time") if name in names), None)
    needed = ("prompt_tokens", "output_tokens") if time else ("arrival_s",)
    for name in needed:
        if name not in names:
            raise TraceError(f"{source.path}: no column {name!r}: {suggestion(name, names)}")
    return [str(time), *(name for name in plain.COLUMNS if name in names and name != time)]


def _add_batches(raw: RawTrace, file: Any, wanted: list[str]) -> None:
    first = 1
    for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
        columns = {name: _texts(batch.column(name)) for name in wanted}
        if "arrival_time" in columns:
            columns["arrival_ns"] = columns.pop("arrival_time")
        rows = np.arange(first, first + len(batch), dtype=np.int64)
        plain.add_chunk(raw, Chunk(columns, rows))
        first += len(batch)
        if raw.full:
            return


def _texts(column: Any) -> NDArray[np.object_]:
    """A column as texts: integers and decimals as written, timestamps as ns, lists joined by blanks."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns")).cast(pa.int64())
    values = column.to_pylist()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        texts = [" ".join(map(str, value or ())) for value in values]
    else:
        texts = ["" if value is None else str(value) for value in values]
    return np.array(texts, dtype=object)


FORMAT = TraceFormat(
    name="parquet",
    title="Parquet",
    columns={
        "arrival_s": "or arrival_ms, arrival_us, arrival_ns, or arrival_time as a timestamp",
        "prompt_tokens": "integer >= 1",
        "output_tokens": "integer >= 1",
        "...": "the optional columns of plain CSV; prefix_hashes as a list",
    },
    detect=detect,
    read=read,
)
