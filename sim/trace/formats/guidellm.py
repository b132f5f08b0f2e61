"""GuideLLM benchmark reports (JSON): replay what the benchmark sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.errors import TraceError
from sim.trace.formats import TraceFormat
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

UNFINISHED = ("incomplete", "errored")


def detect(source: TraceSource) -> bool:
    """Whether a JSON document holds benchmarks."""
    return source.first_line.startswith("{") and '"benchmarks"' in source.head


def read(source: TraceSource, raw: RawTrace) -> None:
    """The successful requests of the benchmark that has most of them.

    Line numbers in errors are places in its list of requests, from 1.
    """
    report = source.whole_json
    if not isinstance(report, dict) or not report.get("benchmarks"):
        raise TraceError(f"{source.path}: not a GuideLLM report: no benchmarks in it")
    benchmarks = [_groups(benchmark) for benchmark in report["benchmarks"]]
    groups = max(benchmarks, key=lambda found: len(found.get("successful") or ()))
    if len(benchmarks) > 1:
        raw.notices.append(f"the file holds {len(benchmarks)} benchmarks; the one with most requests is read")
    for name in UNFINISHED:
        raw.drop(f"{name} requests", len(groups.get(name) or ()))
    requests = groups.get("successful") or []
    lines = np.arange(1, len(requests) + 1, dtype=np.int64)
    if not requests:
        return
    starts = [_start(request) for request in requests]
    raw.add(
        line=lines,
        arrival_ns=raw.times("request_start_time", starts, lines, 9),
        prompt_tokens=raw.tokens("prompt_tokens", _counts(requests, "prompt_tokens", "input"), lines),
        output_tokens=raw.tokens("output_tokens", _counts(requests, "output_tokens", "output"), lines),
        request_ids=[str(request.get("request_id", row)) for row, request in enumerate(requests)],
    )


def _groups(benchmark: dict[str, Any]) -> dict[str, Any]:
    groups = benchmark.get("requests") or {}
    return groups if isinstance(groups, dict) else {"successful": groups}


def _start(request: dict[str, Any]) -> str:
    """Older reports call it start_time; the newest may keep it in info.timings only."""
    timings = (request.get("info") or {}).get("timings") or {}
    places = (request.get("request_start_time"), request.get("start_time"), timings.get("request_start"))
    return str(next((value for value in places if value is not None), ""))


def _counts(requests: list[dict[str, Any]], key: str, side: str) -> list[str]:
    texts = []
    for request in requests:
        metrics = request.get(f"{side}_metrics") or {}
        places = (request.get(key), metrics.get("total_tokens"), metrics.get("text_tokens"))
        texts.append(str(next((value for value in places if value is not None), "")))
    return texts


FORMAT = TraceFormat(
    name="guidellm",
    title="GuideLLM report (JSON)",
    columns={
        "benchmarks[].requests.successful[]": "requests; incomplete and errored ones are dropped and counted",
        "request_start_time": "seconds (older reports: start_time)",
        "prompt_tokens": "prompt_tokens (or input_metrics.total_tokens)",
        "output_tokens": "output_tokens (or output_metrics.total_tokens)",
        "request_id": "optional; request_id",
    },
    detect=detect,
    read=read,
)
