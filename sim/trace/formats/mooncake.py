"""Mooncake JSONL: arrivals in ms and chained hashes of prompt blocks (512 tokens, or other sizes)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.trace.formats import TraceFormat
from sim.trace.json_rows import numbers_of, read_object_chunks
from sim.trace.raw import Lines, RawTrace
from sim.trace.source import TraceSource

BLOCK_SIZES = (512, 16, *(2**power for power in range(5, 9)), 1024, 2048, 4096, 8, 4, 2, 1)
"""Tried in this order; Mooncake's own first, then vLLM's."""
KEYS = {"timestamp", "input_length", "output_length"}


def detect(source: TraceSource) -> bool:
    """Whether the first object has Mooncake's keys and is not of Bailian's kind."""
    first = source.first_object or {}
    return set(first) >= KEYS and "chat_id" not in first


def read(source: TraceSource, raw: RawTrace) -> None:
    """Times in milliseconds; the block size is found from the first rows."""
    read_hashed(source, raw, places=6, block_tokens=None)


def read_hashed(source: TraceSource, raw: RawTrace, *, places: int, block_tokens: int | None) -> None:
    """Rows of timestamp, input_length, output_length and, if there, hash_ids.

    `places` is the unit of the times (RawTrace.times). Rows without output are dropped and counted.
    """
    raw.hash_block_tokens = block_tokens
    for lines, objects in read_object_chunks(source, raw, lambda: raw.full):
        prompts = raw.tokens("input_length", numbers_of(raw, objects, "input_length", lines), lines)
        outputs = raw.tokens("output_length", numbers_of(raw, objects, "output_length", lines), lines, 0)
        raw.drop("no output tokens", int((outputs == 0).sum()))
        raw.add(
            keep=outputs > 0,
            line=lines,
            arrival_ns=raw.times("timestamp", numbers_of(raw, objects, "timestamp", lines), lines, places),
            prompt_tokens=prompts,
            output_tokens=outputs,
            prefix_hashes=_hashes(raw, objects, prompts, lines),
        )


def _hashes(
    raw: RawTrace, objects: list[dict[str, Any]], prompts: NDArray[np.int64], lines: Lines
) -> list[tuple[int, ...]] | None:
    """hash_ids as tuples; None if the file has none. Their number must fit the prompt's length."""
    if "prefix_hashes" not in raw.columns and not (raw.rows == 0 and "hash_ids" in objects[0]):
        return None
    hashes = [tuple(value.get("hash_ids") or ()) for value in objects]
    counts = np.fromiter(map(len, hashes), np.int64, len(hashes))
    if raw.hash_block_tokens is None:
        fitting = (size for size in BLOCK_SIZES if _fits(counts, prompts, size).all())
        raw.hash_block_tokens = next(fitting, BLOCK_SIZES[0])
    size = raw.hash_block_tokens
    wrong = ~_fits(counts, prompts, size)
    if wrong.any():
        row = int(np.argmax(wrong))
        raw.fail(
            int(lines[row]),
            f"hash_ids: {counts[row]} ids for input_length {prompts[row]}; "
            f"blocks of {size} tokens make {-(-int(prompts[row]) // size)}",
        )
    return hashes


def _fits(counts: NDArray[np.int64], prompts: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """One id a block, with the partial last block counted or left out; or no ids at all."""
    fits: NDArray[np.bool_] = (counts == -(-prompts // size)) | (counts == prompts // size) | (counts == 0)
    return fits


FORMAT = TraceFormat(
    name="mooncake",
    title="Mooncake JSONL",
    columns={
        "timestamp": "milliseconds, decimals allowed",
        "input_length": "prompt_tokens",
        "output_length": "output_tokens; rows with 0 are dropped and counted",
        "hash_ids": "optional; prefix_hashes, one a block of 512 tokens (other sizes are found)",
    },
    detect=detect,
    read=read,
)
