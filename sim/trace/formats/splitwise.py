"""splitwise-sim CSV (Mutinifni/splitwise-sim)."""

from __future__ import annotations

from sim.trace.csv_rows import find_column, need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether the header names splitwise-sim's columns."""
    return {"arrival_timestamp", "prompt_size", "token_size"} <= set(source.header)


def read(source: TraceSource, raw: RawTrace) -> None:
    """Every row must be whole."""
    time = need_column(source, "arrival_timestamp")
    prompt, output = need_column(source, "prompt_size"), need_column(source, "token_size")
    name, client = find_column(source, "request_id"), find_column(source, "application_id")
    for chunk in read_chunks(source, (time, prompt, output, name, client), lambda: raw.full):
        raw.add(
            line=chunk.line,
            arrival_ns=raw.times(time, chunk[time], chunk.line, 9),
            prompt_tokens=raw.tokens(prompt, chunk[prompt], chunk.line),
            output_tokens=raw.tokens(output, chunk[output], chunk.line),
            request_ids=list(chunk[name]) if name else None,
            client=list(chunk[client]) if client else None,
        )


FORMAT = TraceFormat(
    name="splitwise",
    title="splitwise-sim CSV",
    columns={
        "arrival_timestamp": "seconds",
        "prompt_size": "prompt_tokens",
        "token_size": "output_tokens",
        "request_id": "optional; request_id",
        "application_id": "optional; client",
    },
    detect=detect,
    read=read,
)
