"""Writing a Trace as plain CSV (sim/trace/formats/plain.py), whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.errors import TraceError
from sim.core.trace import Trace


def write_plain(trace: Trace, path: Path) -> None:
    """Every column the trace has; reading it back gives an equal trace. Units: decimal seconds."""
    columns: dict[str, list[str]] = {}
    if trace.request_ids is not None:
        columns["request_id"] = [_quoted(text) for text in trace.request_ids]
    columns["arrival_s"] = decimal_seconds(trace.arrival_ns)
    columns["prompt_tokens"] = list(map(str, trace.prompt_tokens.tolist()))
    columns["output_tokens"] = list(map(str, trace.output_tokens.tolist()))
    for name, column, text in _optional(trace):
        if column is not None:
            columns[name] = [text(value) for value in column]
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    write_text(path, "\n".join(lines) + "\n")


def _optional(trace: Trace) -> Iterator[tuple[str, Any, Callable[[Any], str]]]:
    yield "priority", trace.priority, str
    yield "client", trace.client, _quoted
    yield "slo_class", trace.slo_class, _quoted
    yield "session", trace.session, str
    yield "think_s", None if trace.think_ns is None else decimal_seconds(trace.think_ns), str
    yield "prefix_hashes", trace.prefix_hashes, lambda hashes: " ".join(map(str, hashes))
    if trace.prefix_hashes is not None and trace.hash_block_tokens is not None:
        yield "hash_block_tokens", [trace.hash_block_tokens] * len(trace), str


def decimal_seconds(times_ns: NDArray[np.int64]) -> list[str]:
    """Exact decimals of non-negative times, without trailing zeros."""
    whole, rest = np.divmod(times_ns, 1_000_000_000)
    pairs = zip(whole.tolist(), rest.tolist(), strict=True)
    return [f"{second}.{part:09d}".rstrip("0").rstrip(".") for second, part in pairs]


def _quoted(text: str | None) -> str:
    text = text or ""
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; TraceError if that cannot be done."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(text.encode())
        os.replace(part, path)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from None
