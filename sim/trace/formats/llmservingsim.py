"""LLMServingSim JSONL (casys-kaist/LLMServingSim): ns; single requests and agentic sessions.

Token ids are turned into chained block ids at once; neither they nor any text is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sim.trace.formats import TraceFormat
from sim.trace.json_rows import numbers_of, read_object_chunks
from sim.trace.raw import Lines, RawTrace
from sim.trace.source import TraceSource

BLOCK_TOKENS = 16


class BlockIds:
    """Numbers for chained blocks: equal prefixes, and only they, get equal numbers."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._ids: dict[tuple[int, bytes], int] = {}

    def of(self, token_ids: list[int]) -> tuple[int, ...]:
        """One number for each whole block of the prompt."""
        data, step = np.array(token_ids, dtype="<i4").tobytes(), 4 * self._block_tokens
        chain: list[int] = []
        parent = -1
        for start in range(0, len(data) - step + 1, step):
            key = (parent, data[start : start + step])
            parent = self._ids.setdefault(key, len(self._ids))
            chain.append(parent)
        return tuple(chain)


def detect(source: TraceSource) -> bool:
    """Whether the first object is a request or a session of LLMServingSim."""
    first = set(source.first_object or {})
    return {"input_toks", "output_toks"} <= first or "sub_requests" in first


def read(source: TraceSource, raw: RawTrace) -> None:
    """Sessions become turns that follow one another after tool_duration_ns."""
    blocks = BlockIds(BLOCK_TOKENS)
    hashed = False
    for lines, objects in read_object_chunks(source, raw, lambda: raw.full):
        turns = list(_turns(raw, lines, objects))
        turn_lines = np.array([turn["line"] for turn in turns], dtype=np.int64)
        prompts = raw.tokens("input_toks", numbers_of(raw, turns, "input_toks", turn_lines), turn_lines)
        _check_ids(raw, turns, prompts.tolist())
        hashed = hashed or (not raw.rows and any(turn.get("input_tok_ids") for turn in turns))
        chained = "think_ns" in raw.columns or (not raw.rows and any(turn["session"] for turn in turns))
        think_ns = raw.times("tool_duration_ns", [turn["think_ns"] for turn in turns], turn_lines, 0)
        raw.add(
            line=turn_lines,
            arrival_ns=_arrivals(raw, turns, turn_lines, think_ns.tolist()),
            prompt_tokens=prompts,
            output_tokens=raw.tokens(
                "output_toks", numbers_of(raw, turns, "output_toks", turn_lines), turn_lines
            ),
            session=[turn["session"] for turn in turns] if chained else None,
            think_ns=think_ns if chained else None,
            prefix_hashes=[blocks.of(turn.get("input_tok_ids") or []) for turn in turns] if hashed else None,
        )
    raw.hash_block_tokens = BLOCK_TOKENS if hashed else None


def _turns(raw: RawTrace, lines: Lines, objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every LLM call; `think_ns` is the wait before it, `session` is "" for single requests."""
    for line, value in zip(lines.tolist(), objects, strict=True):
        calls = value.get("sub_requests")
        if calls is None:
            yield {**value, "line": line, "session": "", "think_ns": "0"}
            continue
        if not calls:
            raw.fail(line, "sub_requests is empty")
        wait = "0"
        for number, call in enumerate(calls):
            start = {"arrival_time_ns": value["arrival_time_ns"]} if "arrival_time_ns" in value else {}
            yield {
                **call,
                **(start if number == 0 else {"arrival_time_ns": None}),
                "line": line,
                "session": f"session {value.get('session_id', line)}",
                "think_ns": wait,
            }
            wait = str(call.get("tool_duration_ns", 0))


def _arrivals(raw: RawTrace, turns: list[dict[str, Any]], lines: Lines, think_ns: list[int]) -> Any:
    """A later turn nominally arrives a think time after the one before it."""
    first = [turn for turn in turns if turn.get("arrival_time_ns", "") is not None]
    places = [row for row, turn in enumerate(turns) if turn.get("arrival_time_ns", "") is not None]
    texts = numbers_of(raw, first, "arrival_time_ns", lines[places])
    known = dict(zip(places, raw.times("arrival_time_ns", texts, lines[places], 0).tolist(), strict=True))
    arrivals = np.zeros(len(turns), dtype=np.int64)
    for row in range(len(turns)):
        arrivals[row] = known[row] if row in known else arrivals[row - 1] + think_ns[row]
    return arrivals


def _check_ids(raw: RawTrace, turns: list[dict[str, Any]], prompts: list[int]) -> None:
    for turn, prompt in zip(turns, prompts, strict=True):
        ids = turn.get("input_tok_ids")
        if ids and len(ids) != prompt:
            raw.fail(turn["line"], f"input_tok_ids has {len(ids)} ids, input_toks is {prompt}")


FORMAT = TraceFormat(
    name="llmservingsim",
    title="LLMServingSim JSONL",
    columns={
        "arrival_time_ns": "nanoseconds",
        "input_toks": "prompt_tokens",
        "output_toks": "output_tokens",
        "input_tok_ids": "optional; hashed into prefix_hashes, one a whole block of 16 tokens",
        "session_id": "with sub_requests: session",
        "sub_requests": "turns: input_toks, output_toks, tool_duration_ns (the wait after it), input_tok_ids",
    },
    detect=detect,
    read=read,
)
