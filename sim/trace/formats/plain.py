"""Plain CSV: this project's own format, and what `trace convert` writes by default."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.trace.csv_rows import Chunk, find_column, need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

TIMES = {"arrival_s": 9, "arrival_ms": 6, "arrival_us": 3, "arrival_ns": 0}
OPTIONAL = ("request_id", "priority", "client", "slo_class", "session", "think_s", "prefix_hashes")

COLUMN = {"request_id": "request_ids", "think_s": "think_ns"}
"""Where RawTrace calls a column something else."""


def detect(source: TraceSource) -> bool:
    """Whether the header names prompt_tokens and output_tokens."""
    return {"prompt_tokens", "output_tokens"} <= set(source.header)


def read(source: TraceSource, raw: RawTrace) -> None:
    """Every row must be whole: a wrong one is an error, never dropped."""
    prompt, output = need_column(source, "prompt_tokens"), need_column(source, "output_tokens")
    time = need_column(source, *TIMES)
    optional = [name for name in OPTIONAL if find_column(source, name)]
    block = find_column(source, "hash_block_tokens")
    for chunk in read_chunks(source, (time, prompt, output, block, *optional), lambda: raw.full):
        if block and raw.hash_block_tokens is None and len(chunk.line):
            raw.hash_block_tokens = int(raw.tokens(block, chunk[block][:1], chunk.line)[0])
        raw.add(
            line=chunk.line,
            arrival_ns=raw.times(time, chunk[time], chunk.line, TIMES[time]),
            prompt_tokens=raw.tokens(prompt, chunk[prompt], chunk.line),
            output_tokens=raw.tokens(output, chunk[output], chunk.line),
            **{COLUMN.get(name, name): _optional(raw, name, chunk) for name in optional},
        )


def _optional(raw: RawTrace, name: str, chunk: Chunk) -> Any:
    texts = chunk[name]
    match name:
        case "priority":
            return raw.tokens(name, np.where(texts == "", "0", texts), chunk.line, minimum=-(2**62))
        case "think_s":
            return raw.times(name, np.where(texts == "", "0", texts), chunk.line, 9)
        case "prefix_hashes":
            return [tuple(int(word) for word in text.split()) for text in texts]
        case "request_id" | "session":
            return list(texts)
        case _:
            return [text or None for text in texts]


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
        "slo_class": "optional text, a class of the config's `slo`",
        "session": "optional text; turns of a session in file order",
        "think_s": "optional; wait from the previous turn's completion",
        "prefix_hashes": "optional chained block hashes, integers separated by blanks",
        "hash_block_tokens": "tokens a hash stands for; the first row's counts",
    },
    detect=detect,
    read=read,
)
