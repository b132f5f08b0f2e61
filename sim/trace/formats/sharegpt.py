"""ShareGPT JSON: the lengths of each conversation's first exchange; no arrivals. No text is kept."""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.errors import TraceError
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

TOKENS_PER_WORD = 4 / 3
"""English text, words split at blanks: OpenAI's rule of thumb of 0.75 words a token."""
TOKENIZER_VARIABLE = "SIM_TOKENIZER"
"""Environment variable with the path of a tokenizer.json, or the name of a model on the hub."""
IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
USER_NAMES = frozenset({"human", "user"})


def detect(source: TraceSource) -> bool:
    """Whether a JSON list holds conversations."""
    return source.first_line.startswith("[") and '"conversations"' in source.head[:100_000]


def read(source: TraceSource, raw: RawTrace) -> None:
    """Conversations that do not begin with a question and an answer are dropped and counted."""
    entries = source.whole_json
    if not isinstance(entries, list):
        raise TraceError(f"{source.path}: not a JSON list of conversations")
    count = _counter(raw)
    pairs: list[tuple[int, int, int, str]] = []
    for number, entry in enumerate(entries, start=1):
        exchange = _first_exchange(entry)
        if exchange is None:
            raw.drop("no question and answer")
            continue
        pairs.append((number, count(exchange[0]), count(exchange[1]), str(entry.get("id", number))))
        if raw.limit is not None and len(pairs) >= raw.limit:
            break
    numbers = np.array([pair[:3] for pair in pairs], dtype=np.int64).reshape(-1, 3)
    keep = (numbers[:, 1] > 0) & (numbers[:, 2] > 0)
    raw.drop("empty question or answer", int((~keep).sum()))
    raw.add(
        keep=keep,
        line=numbers[:, 0],
        arrival_ns=raw.no_times(len(pairs)),
        prompt_tokens=numbers[:, 1],
        output_tokens=numbers[:, 2],
        request_ids=_distinct([pair[3] for pair in pairs]),
    )


def _distinct(names: list[str]) -> list[str]:
    """The names, repeated ones numbered: an id of a conversation is no promise of being there once."""
    seen = Counter(names)
    return [name if seen[name] == 1 else f"{name}#{place}" for place, name in enumerate(names, start=1)]


def _first_exchange(entry: Any) -> tuple[str, str] | None:
    turns = entry.get("conversations") if isinstance(entry, dict) else None
    if not turns or len(turns) < 2 or turns[0].get("from", turns[0].get("role")) not in USER_NAMES:
        return None
    question, answer = (turn.get("value", turn.get("content")) for turn in turns[:2])
    return (question, answer) if isinstance(question, str) and isinstance(answer, str) else None


def _counter(raw: RawTrace) -> Callable[[str], int]:
    """A function from a text to its tokens: by the tokenizer of SIM_TOKENIZER, else by words."""
    name = os.environ.get(TOKENIZER_VARIABLE)
    if not name:
        raw.notices.append(
            f"lengths are estimates, {TOKENS_PER_WORD:.3g} tokens a word and 1 an ideograph; "
            f"set {TOKENIZER_VARIABLE} to count them"
        )
        return words_to_tokens
    try:
        tokenizer = importlib.import_module("tokenizers").Tokenizer
    except ImportError:
        raise TraceError(f"{TOKENIZER_VARIABLE} needs tokenizers: pip install tokenizers") from None
    try:
        made = tokenizer.from_file(name) if os.path.exists(name) else tokenizer.from_pretrained(name)
    except Exception as error:
        raise TraceError(f"{TOKENIZER_VARIABLE}: cannot load tokenizer {name!r}: {error}") from None
    return lambda text: len(made.encode(text, add_special_tokens=False).ids)


def words_to_tokens(text: str) -> int:
    """Estimated tokens: 4/3 a word, 1 a Chinese, Japanese or Korean character, rounded up."""
    rest, ideographs = IDEOGRAPHS.subn(" ", text)
    return -(-4 * len(rest.split()) // 3) + ideographs


FORMAT = TraceFormat(
    name="sharegpt",
    title="ShareGPT JSON",
    columns={
        "id": "request_id",
        "conversations[0].value": "the question (human or user): prompt_tokens by a tokenizer or by words",
        "conversations[1].value": "the answer: output_tokens likewise",
    },
    detect=detect,
    read=read,
)
