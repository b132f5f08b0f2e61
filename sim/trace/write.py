"""Writing a Trace in a format that can be read back, whole or not at all.

Owns what each format keeps. What it cannot hold is left out with a notice, never silently.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import TraceError, suggestion
from sim.core.trace import Trace

AZURE_EPOCH = np.datetime64("2000-01-01T00:00:00", "ns")
"""The date that a trace's time 0 gets in Azure CSV, which has no relative times."""
AZURE_TICK_NS = 100
"""Azure's times have 7 digits."""

Content = tuple[bytes, list[str]]
"""A file's bytes, and sentences on what they do not hold."""


def write_trace(trace: Trace, path: str | Path, *, format: str = "auto") -> list[str]:
    """Write `trace`; sentences on what the format does not hold are returned.

    `format` is one of WRITERS, or "auto": by the name's ending, .csv plain, .jsonl mooncake, .parquet.
    A further .gz or .zst compresses. TraceError for an unknown format or a file that cannot be written.
    """
    path = Path(path)
    inner = Path(path.stem) if path.suffix in COMPRESSORS else path
    if format == "auto":
        format = BY_SUFFIX.get(inner.suffix, "plain")
    if format not in WRITERS:
        raise TraceError(f"cannot write trace format {format!r}: {suggestion(format, ['auto', *WRITERS])}")
    content, losses = WRITERS[format](trace)
    compress = COMPRESSORS.get(path.suffix)
    write_bytes(path, content if compress is None else compress(content))
    return losses


def plain_csv(trace: Trace) -> Content:
    """Every column the trace has, times as exact decimal seconds."""
    columns: dict[str, list[str]] = {}
    if trace.request_ids is not None:
        columns["request_id"] = [_quoted(text) for text in trace.request_ids]
    columns["arrival_s"] = decimal_seconds(trace.arrival_ns)
    columns["prompt_tokens"] = list(map(str, trace.prompt_tokens.tolist()))
    columns["output_tokens"] = list(map(str, trace.output_tokens.tolist()))
    for name, column, text in _optional(trace):
        if column is not None:
            columns[name] = [text(value) for value in column]
    return _csv(columns), []


def _optional(trace: Trace) -> Iterator[tuple[str, Any, Callable[[Any], str]]]:
    yield "priority", trace.priority, str
    yield "client", trace.client, _quoted
    yield "slo_class", trace.slo_class, _quoted
    yield "session", trace.session, str
    yield "think_s", None if trace.think_ns is None else decimal_seconds(trace.think_ns), str
    yield "prefix_hashes", trace.prefix_hashes, lambda hashes: " ".join(map(str, hashes))
    if trace.prefix_hashes is not None and trace.hash_block_tokens is not None:
        yield "hash_block_tokens", [trace.hash_block_tokens] * len(trace), str


def azure_csv(trace: Trace) -> Content:
    """Azure's three columns, time 0 at the year 2000; times rounded to 100 ns."""
    ticks = np.rint(trace.arrival_ns / AZURE_TICK_NS).astype(np.int64) * AZURE_TICK_NS
    stamps = (AZURE_EPOCH + ticks.astype("timedelta64[ns]")).astype(str).tolist()
    columns = {
        "TIMESTAMP": [stamp[:27].replace("T", " ") for stamp in stamps],
        "ContextTokens": list(map(str, trace.prompt_tokens.tolist())),
        "GeneratedTokens": list(map(str, trace.output_tokens.tolist())),
    }
    losses = _losses(trace, ())
    if (ticks != trace.arrival_ns).any():
        losses.append("times are rounded to 100 ns, the resolution of Azure's format")
    return _csv(columns), losses


def vidur_csv(trace: Trace) -> Content:
    """Vidur's three columns."""
    columns = {
        "arrived_at": decimal_seconds(trace.arrival_ns),
        "num_prefill_tokens": list(map(str, trace.prompt_tokens.tolist())),
        "num_decode_tokens": list(map(str, trace.output_tokens.tolist())),
    }
    return _csv(columns), _losses(trace, ())


def mooncake_jsonl(trace: Trace) -> Content:
    """Mooncake's keys, times as exact decimal milliseconds."""
    times = decimal_seconds(trace.arrival_ns * 1000)
    lengths = zip(times, trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    lines = [
        f'{{"timestamp": {time}, "input_length": {prompt}, "output_length": {output}'
        for time, prompt, output in lengths
    ]
    if trace.prefix_hashes is not None:
        hashed = zip(lines, trace.prefix_hashes, strict=True)
        lines = [f'{line}, "hash_ids": {json.dumps(list(hashes))}' for line, hashes in hashed]
    text = "".join(f"{line}}}\n" for line in lines)
    return text.encode(), _losses(trace, ("prefix_hashes",))


def parquet_file(trace: Trace) -> Content:
    """The plain format's columns; arrivals as integer nanoseconds."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise TraceError("writing Parquet needs pyarrow: pip install pyarrow") from None
    columns: dict[str, Any] = {
        "arrival_ns": trace.arrival_ns,
        "prompt_tokens": trace.prompt_tokens,
        "output_tokens": trace.output_tokens,
        "request_id": trace.request_ids,
        "priority": trace.priority,
        "client": trace.client,
        "slo_class": trace.slo_class,
        "session": trace.session,
        "think_s": None if trace.think_ns is None else decimal_seconds(trace.think_ns),
        "prefix_hashes": trace.prefix_hashes,
    }
    if trace.prefix_hashes is not None:
        columns["hash_block_tokens"] = [trace.hash_block_tokens] * len(trace)
    buffer = io.BytesIO()
    parquet.write_table(
        pa.table({name: column for name, column in columns.items() if column is not None}), buffer
    )
    return buffer.getvalue(), []


def _losses(trace: Trace, kept: tuple[str, ...]) -> list[str]:
    """A sentence naming the optional columns that a format does not hold."""
    optional = ("request_ids", "priority", "client", "slo_class", "session", "think_ns", "prefix_hashes")
    lost = [name for name in optional if name not in kept and getattr(trace, name) is not None]
    return [f"the format has no place for {', '.join(lost)}; left out"] if lost else []


def decimal_seconds(times_ns: NDArray[np.int64]) -> list[str]:
    """Exact decimals of non-negative times, without trailing zeros."""
    whole, rest = np.divmod(times_ns, 1_000_000_000)
    pairs = zip(whole.tolist(), rest.tolist(), strict=True)
    return [f"{second}.{part:09d}".rstrip("0").rstrip(".") for second, part in pairs]


def _csv(columns: dict[str, list[str]]) -> bytes:
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str | None) -> str:
    text = text or ""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; TraceError if that cannot be done."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from None


def _zstd(content: bytes) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise TraceError("writing .zst needs zstandard: pip install zstandard") from None
    compressed: bytes = zstandard.ZstdCompressor().compress(content)
    return compressed


WRITERS: dict[str, Callable[[Trace], Content]] = {
    "plain": plain_csv,
    "mooncake": mooncake_jsonl,
    "azure": azure_csv,
    "vidur": vidur_csv,
    "parquet": parquet_file,
}
BY_SUFFIX = {".csv": "plain", ".jsonl": "mooncake", ".parquet": "parquet"}
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    # mtime 0: the same trace gives the same bytes
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".zst": _zstd,
}
