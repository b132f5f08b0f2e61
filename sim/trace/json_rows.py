"""Reading JSON lines in chunks of objects, with the line number of each.

Decimal numbers are kept as the text they were written in, so that times stay exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sim.trace.raw import Lines, RawTrace
from sim.trace.source import TraceSource

CHUNK_ROWS = 100_000


def read_object_chunks(
    source: TraceSource, raw: RawTrace, done: Callable[[], bool]
) -> Iterator[tuple[Lines, list[dict[str, Any]]]]:
    """Chunks of (line numbers, objects) until the end or until `done()`; empty lines are skipped.

    TraceError at the first line that is not a JSON object.
    """
    lines: list[int] = []
    objects: list[dict[str, Any]] = []
    decode = json.JSONDecoder(parse_float=str).decode
    with source.open_text() as file:
        for number, text in enumerate(file, start=1):
            if text.isspace():
                continue
            try:
                value = decode(text)
            except ValueError as error:
                raw.fail(number, f"not valid JSON: {error}")
            if not isinstance(value, dict):
                raw.fail(number, f"expected a JSON object, got {text[:60]!r}")
            lines.append(number)
            objects.append(value)
            if len(objects) == CHUNK_ROWS:
                yield np.array(lines, dtype=np.int64), objects
                lines, objects = [], []
                if done():
                    return
    if objects:
        yield np.array(lines, dtype=np.int64), objects


def texts_of(raw: RawTrace, objects: Sequence[dict[str, Any]], key: str, lines: Lines) -> list[str]:
    """The numbers under `key` as texts; TraceError at the first object without it."""
    try:
        return [str(value[key]) for value in objects]
    except KeyError:
        row = next(row for row, value in enumerate(objects) if key not in value)
        raw.fail(int(lines[row]), f"no key {key!r}; it has {', '.join(objects[row]) or 'none'}")
