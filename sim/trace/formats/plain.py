"""Plain CSV: this project's own format, and what `trace convert` writes by default."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.trace.csv_rows import Chunk, find_column, need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

TIMES = {"arrival_s": 9, "arrival_ms": 6, "arrival_us": 3, "arrival_ns": 0}
"""Time columns and the decimal places from their unit to ns."""
OPTIONAL = {
    "request_id": "request_ids",
    "priority": "priority",
    "client": "client",
    "slo_class": "slo_class",
    "session": "session",
    "think_s": "think_ns",
    "prefix_hashes": "prefix_hashes",
}
"""Optional columns and what a Trace calls them."""
COLUMNS = (*TIMES, "prompt_tokens", "output_tokens", *OPTIONAL, "hash_block_tokens")


def detect(source: TraceSource) -> bool:
    """Whether the header names prompt_tokens and output_tokens."""
    return {"prompt_tokens", "output_tokens"} <= set(source.header)


def read(source: TraceSource, raw: RawTrace) -> None:
    """Every row must be whole: a wrong one is an error, never dropped."""
    need_column(source, *TIMES)
    need_column(source, "prompt_tokens")
    need_column(source, "output_tokens")
    wanted = [name for name in COLUMNS if find_column(source, name) == name]
    for chunk in read_chunks(source, wanted, lambda: raw.full):
        add_chunk(raw, chunk)


def add_chunk(raw: RawTrace, chunk: Chunk) -> None:
    """Append rows that have this format's columns."""
    time = next(name for name in TIMES if chunk.get(name) is not None)
    blocks = chunk.get("hash_block_tokens")
    if blocks is not None and raw.hash_block_tokens is None and len(chunk.line):
        raw.hash_block_tokens = int(raw.tokens("hash_block_tokens", blocks[:1], chunk.line)[0])
    raw.add(
        line=chunk.line,
        arrival_ns=raw.times(time, chunk[time], chunk.line, TIMES[time]),
        prompt_tokens=raw.tokens("prompt_tokens", chunk["prompt_tokens"], chunk.line),
        output_tokens=raw.tokens("output_tokens", chunk["output_tokens"], chunk.line),
        **{OPTIONAL[name]: _optional(raw, name, chunk) for name in OPTIONAL},
    )


def _optional(raw: RawTrace, name: str, chunk: Chunk) -> Any:
    texts = chunk.get(name)
    if texts is None:
        return None
    match name:
        case "priority":
            return raw.tokens(name, np.where(texts == "", "0", texts), chunk.line, -(2**62), 2**62)
        case "think_s":
            return raw.times(name, np.where(texts == "", "0", texts), chunk.line, 9)
        case "prefix_hashes":
            return _hashes(raw, texts.tolist(), chunk.line.tolist())
        case "request_id" | "session":
            return texts.tolist()
        case _:
            return [text or None for text in texts.tolist()]


def _hashes(raw: RawTrace, texts: list[str], lines: list[int]) -> list[tuple[int, ...]]:
    hashes = []
    for text, line in zip(texts, lines, strict=True):
        try:
            hashes.append(tuple(map(int, text.split())))
        except ValueError:
            raw.fail(line, f"prefix_hashes: {text[:60]!r}; expected integers separated by blanks")
    return hashes


FORMAT = TraceFormat(
    name="plain",
    title="plain CSV",
    columns={
        "arrival_s": "decimal seconds (or arrival_ms, arrival_us, arrival_ns)",
        "prompt_tokens": "integer >= 1",
        "output_tokens": "integer >= 1",
        "request_id": "optional text",
        "priority": "optional integer",
        "client": "optional text",
        "slo_class": "optional text, a class of the config's SLO classes",
        "session": "optional text; turns of a session in file order",
        "think_s": "optional; wait from the previous turn's completion",
        "prefix_hashes": "optional chained block hashes, integers separated by blanks",
        "hash_block_tokens": "tokens a hash stands for; the first row's counts",
    },
    detect=detect,
    read=read,
)
