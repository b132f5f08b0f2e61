"""Vidur CSV (microsoft/vidur): with arrivals, or lengths only."""

from __future__ import annotations

from sim.trace.csv_rows import find_column, need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether the header names Vidur's token columns."""
    return {"num_prefill_tokens", "num_decode_tokens"} <= set(source.header)


def read(source: TraceSource, raw: RawTrace) -> None:
    """Rows without decode tokens are dropped and counted."""
    prompt, output = need_column(source, "num_prefill_tokens"), need_column(source, "num_decode_tokens")
    time = find_column(source, "arrived_at")
    for chunk in read_chunks(source, (time, prompt, output), lambda: raw.full):
        outputs = raw.tokens(output, chunk[output], chunk.line, minimum=0)
        raw.drop("no output tokens", int((outputs == 0).sum()))
        raw.add(
            keep=outputs > 0,
            line=chunk.line,
            arrival_ns=raw.no_times(len(outputs))
            if time is None
            else raw.times(time, chunk[time], chunk.line, 9),
            prompt_tokens=raw.tokens(prompt, chunk[prompt], chunk.line),
            output_tokens=outputs,
        )


FORMAT = TraceFormat(
    name="vidur",
    title="Vidur CSV",
    columns={
        "arrived_at": "optional; seconds",
        "num_prefill_tokens": "prompt_tokens",
        "num_decode_tokens": "output_tokens; rows with 0 are dropped and counted",
    },
    detect=detect,
    read=read,
)
