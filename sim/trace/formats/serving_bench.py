"""Result files of `vllm bench serve` and `sglang.bench_serving`: replay what the benchmark sent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sim.trace.formats import TraceFormat
from sim.trace.json_rows import not_json
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether a JSON object holds per-request input_lens."""
    return source.first_line.startswith("{") and '"input_lens"' in source.head


def read(source: TraceSource, raw: RawTrace) -> None:
    """The last run of the file. Requests that failed are dropped and counted.

    Line numbers in errors are the places in the result's lists, from 1.
    """
    run = _last_run(source, raw)
    lengths = {len(run[key]) for key in ("input_lens", "output_lens")}
    starts = run.get("start_times") or None
    errors = run.get("errors") or []
    rows = len(run["input_lens"])
    if lengths != {rows} or (starts is not None and len(starts) != rows):
        raw.fail(1, "input_lens, output_lens and start_times differ in length")
    lines = np.arange(1, rows + 1, dtype=np.int64)
    prompts = raw.tokens("input_lens", [str(value) for value in run["input_lens"]], lines, minimum=0)
    outputs = raw.tokens("output_lens", [str(value) for value in run["output_lens"]], lines, minimum=0)
    failed = (outputs == 0) | (prompts == 0)
    if len(errors) == rows:
        failed |= np.fromiter(map(bool, errors), np.bool_, rows)
    raw.drop("failed requests", int(failed.sum()))
    raw.add(
        keep=~failed,
        line=lines,
        arrival_ns=raw.no_times(rows)
        if starts is None
        else raw.times("start_times", [str(value) for value in starts], lines, 9),
        prompt_tokens=prompts,
        output_tokens=outputs,
    )


def _last_run(source: TraceSource, raw: RawTrace) -> dict[str, Any]:
    """The result itself, or the last line of a file that results were appended to."""
    whole = source.whole_json
    if isinstance(whole, dict):
        return whole
    runs: list[dict[str, Any]] = []
    with source.open_text() as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    runs = [*runs[-1:], json.loads(line.rstrip(), parse_float=str)]
                except ValueError as error:
                    raw.fail(number, not_json(error))
                if "input_lens" not in runs[-1]:
                    raw.fail(number, "no key 'input_lens' (was the result saved with details?)")
    if len(runs) > 1:
        raw.notices.append("the file holds several benchmark runs; the last is read")
    return runs[-1]


FORMAT = TraceFormat(
    name="serving_bench",
    title="vLLM and SGLang benchmark results (JSON, JSON lines)",
    columns={
        "input_lens": "prompt_tokens (vLLM: --save-detailed; SGLang: --output-details)",
        "output_lens": "output_tokens",
        "start_times": "optional; seconds on any clock",
        "errors": "optional; a request with a text here failed: dropped and counted",
    },
    detect=detect,
    read=read,
)
