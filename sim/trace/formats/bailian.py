"""Bailian-style JSONL (alibaba-edu/qwen-bailian-usagetraces-anon): seconds, blocks of 16 tokens.

The file says which chat a turn belongs to but not when an answer ended, so that think times cannot
be known: turns arrive at their recorded times, and what they share shows in the hashes.
"""

from __future__ import annotations

from sim.trace.formats import TraceFormat
from sim.trace.formats.mooncake import KEYS, read_hashed
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

BLOCK_TOKENS = 16


def detect(source: TraceSource) -> bool:
    """Whether the first object has a chat_id beside Mooncake's keys."""
    return {*KEYS, "chat_id"} <= set(source.first_object or {})


def read(source: TraceSource, raw: RawTrace) -> None:
    """Times in seconds."""
    read_hashed(source, raw, places=9, block_tokens=BLOCK_TOKENS)


FORMAT = TraceFormat(
    name="bailian",
    title="Bailian (Qwen) JSONL",
    columns={
        "timestamp": "seconds, decimals allowed",
        "input_length": "prompt_tokens",
        "output_length": "output_tokens; rows with 0 are dropped and counted",
        "hash_ids": "optional; prefix_hashes, one a block of 16 tokens",
        "chat_id": "recognises the format; like parent_chat_id, type and turn it is not used",
    },
    detect=detect,
    read=read,
)
