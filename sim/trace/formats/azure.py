"""Azure LLM inference traces, 2023 and 2024 (Azure/AzurePublicDataset)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.trace.csv_rows import need_column, read_chunks
from sim.trace.formats import TraceFormat
from sim.trace.raw import Lines, RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether the header names a TIMESTAMP and ContextTokens."""
    names = {name.lower() for name in source.header}
    return {"timestamp", "contexttokens"} <= names


def read(source: TraceSource, raw: RawTrace) -> None:
    """Rows without output (a failed or cancelled request) are dropped and counted."""
    time = need_column(source, "TIMESTAMP")
    prompt = need_column(source, "ContextTokens")
    output = need_column(source, "GeneratedTokens")
    for chunk in read_chunks(source, (time, prompt, output), lambda: raw.full):
        prompts = raw.tokens(prompt, chunk[prompt], chunk.line, minimum=0)
        outputs = raw.tokens(output, chunk[output], chunk.line, minimum=0)
        raw.drop("no output tokens", int((outputs == 0).sum()))
        raw.drop("no prompt tokens", int(((prompts == 0) & (outputs > 0)).sum()))
        raw.add(
            keep=(prompts > 0) & (outputs > 0),
            line=chunk.line,
            arrival_ns=timestamps_to_ns(raw, time, chunk[time], chunk.line),
            prompt_tokens=prompts,
            output_tokens=outputs,
        )


def timestamps_to_ns(raw: RawTrace, name: str, texts: NDArray[np.object_], lines: Lines) -> NDArray[np.int64]:
    """ISO 8601 texts to ns since 1970, exact to 9 digits; without a zone they are taken as UTC."""
    import pandas as pd

    parsed = pd.to_datetime(pd.Series(texts), format="ISO8601", utc=True, errors="coerce")
    missing = parsed.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raw.fail(int(lines[row]), f"{name}: {texts[row]!r}; expected a time like 2023-11-16 18:15:46.6805900")
    return np.asarray(parsed.dt.as_unit("ns").astype("int64"), dtype=np.int64)


FORMAT = TraceFormat(
    name="azure",
    title="Azure LLM inference, 2023 and 2024",
    columns={
        "TIMESTAMP": "date and time, up to 9 fractional digits, `Z` or an offset allowed; UTC without one",
        "ContextTokens": "prompt_tokens",
        "GeneratedTokens": "output_tokens; rows with 0 are dropped and counted",
    },
    detect=detect,
    read=read,
)
