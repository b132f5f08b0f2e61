"""AIPerf per-request records (profile_export.jsonl): replay what the benchmark sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.trace.formats import TraceFormat
from sim.trace.json_rows import read_object_chunks
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource


def detect(source: TraceSource) -> bool:
    """Whether the first object has a request_start_ns in its metadata."""
    first = source.first_object or {}
    return "metrics" in first and "request_start_ns" in (first.get("metadata") or {})


def read(source: TraceSource, raw: RawTrace) -> None:
    """Requests that failed, were cancelled or only warmed up are dropped and counted."""
    multi_turn = False
    for lines, objects in read_object_chunks(source, raw, lambda: raw.full):
        reasons = [_reason(value) for value in objects]
        for reason in reasons:
            if reason:
                raw.drop(reason)
        kept = [value for value, reason in zip(objects, reasons, strict=True) if not reason]
        if not kept:
            continue
        at = lines[np.array([not reason for reason in reasons])]
        metadata = [value["metadata"] for value in kept]
        multi_turn = multi_turn or (not raw.rows and any(entry.get("turn_index") for entry in metadata))
        raw.add(
            line=at,
            arrival_ns=raw.times("request_start_ns", _texts(metadata, "request_start_ns"), at, 0),
            prompt_tokens=raw.tokens(
                "input_sequence_length", [_metric(v, "input_sequence_length") for v in kept], at
            ),
            output_tokens=raw.tokens(
                "output_sequence_length", [_metric(v, "output_sequence_length") for v in kept], at
            ),
            request_ids=_texts(metadata, "x_request_id"),
            session=_texts(metadata, "x_correlation_id") if multi_turn else None,
            finish_ns=raw.times("request_end_ns", _texts(metadata, "request_end_ns"), at, 0)
            if multi_turn
            else None,
        )


def _reason(value: dict[str, Any]) -> str:
    metadata = value.get("metadata") or {}
    if value.get("error") is not None:
        return "failed requests"
    if metadata.get("was_cancelled"):
        return "cancelled requests"
    return "warm-up requests" if metadata.get("benchmark_phase") == "warmup" else ""


def _texts(entries: list[dict[str, Any]], key: str) -> list[str]:
    return [str(entry.get(key, "")) for entry in entries]


def _metric(value: dict[str, Any], name: str) -> str:
    """The metric's value; output_token_count stands in for a missing output_sequence_length."""
    metrics = value.get("metrics") or {}
    found = metrics.get(name)
    if found is None and name == "output_sequence_length":
        found = metrics.get("output_token_count")
    return str(found["value"]) if isinstance(found, dict) and "value" in found else ""


FORMAT = TraceFormat(
    name="aiperf",
    title="AIPerf profile_export.jsonl",
    columns={
        "metadata.request_start_ns": "nanoseconds",
        "metrics.input_sequence_length.value": "prompt_tokens",
        "metrics.output_sequence_length.value": "output_tokens",
        "metadata.x_request_id": "request_id",
        "metadata.x_correlation_id": "session, if any turn_index is above 0",
        "metadata.request_end_ns": "gives think_s in a session",
        "error, metadata.was_cancelled": "such requests are dropped and counted",
    },
    detect=detect,
    read=read,
)
