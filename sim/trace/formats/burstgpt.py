"""BurstGPT CSV (HPMLL/BurstGPT), with and without the later columns Session ID and Elapsed time."""

from __future__ import annotations

from sim.trace.csv_rows import find_column, need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether the header names request and response tokens."""
    return bool(find_column(source, "Request tokens") and find_column(source, "Response tokens"))


def read(source: TraceSource, raw: RawTrace) -> None:
    """Failures (0 response tokens) and rows without a prompt are dropped and counted."""
    time, prompt = need_column(source, "Timestamp"), need_column(source, "Request tokens")
    output = need_column(source, "Response tokens")
    session, elapsed = find_column(source, "Session ID"), find_column(source, "Elapsed time")
    for chunk in read_chunks(source, (time, prompt, output, session, elapsed), lambda: raw.full):
        prompts = raw.tokens(prompt, chunk[prompt], chunk.line, minimum=0)
        outputs = raw.tokens(output, chunk[output], chunk.line, minimum=0)
        raw.drop("failed (0 response tokens)", int((outputs == 0).sum()))
        raw.drop("no request tokens", int(((prompts == 0) & (outputs > 0)).sum()))
        arrival_ns = raw.times(time, chunk[time], chunk.line, 9)
        both = session is not None and elapsed is not None
        took_ns = raw.times(elapsed, chunk[elapsed], chunk.line, 9) if both and elapsed else None
        raw.add(
            keep=(prompts > 0) & (outputs > 0),
            line=chunk.line,
            arrival_ns=arrival_ns,
            prompt_tokens=prompts,
            output_tokens=outputs,
            session=list(chunk[session]) if both and session else None,
            finish_ns=None if took_ns is None else arrival_ns + took_ns,
        )


FORMAT = TraceFormat(
    name="burstgpt",
    title="BurstGPT CSV",
    columns={
        "Timestamp": "seconds, need not start at 0",
        "Request tokens": "prompt_tokens; rows with 0 are dropped and counted",
        "Response tokens": "output_tokens; rows with 0 are failures, dropped and counted",
        "Session ID": "optional; session, if there is Elapsed time too",
        "Elapsed time": "optional; seconds from request to answer, gives think_s",
    },
    detect=detect,
    read=read,
)
