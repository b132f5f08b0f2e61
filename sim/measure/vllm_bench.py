"""The result of `vllm bench serve --save-result --save-detailed` as a measured run folder.

Owns reading that JSON and writing run.json, trace.jsonl and requests.csv as docs/run-format.md
describes them. The benchmark knows what the client saw and nothing of the engine: what it cannot say
(queueing inside the engine, engine settings not given) stays empty.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from sim.core.errors import TraceError, suggestion
from sim.measure.files import csv_text, write_whole

ENGINE_KEYS = (
    "model",
    "engine",
    "engine_version",
    "gpu",
    "tensor_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "num_gpu_blocks",
    "gpu_memory_gb",
    "link_bandwidth_gb_s",
    "link_latency_us",
)
"""Settings in run.json, by vLLM's own names; docs/run-format.md says what each means."""

REQUEST_COLUMNS = (
    "request_id",
    "arrival_s",
    "prompt_tokens",
    "output_tokens",
    "queued_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
)

_DETAILS = ("input_lens", "output_lens", "ttfts", "itls")


@dataclass(frozen=True, slots=True)
class MeasuredRequest:
    """One completed request; times in seconds from the first arrival."""

    request_id: str
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    first_token_s: float
    last_token_s: float


@dataclass(frozen=True, slots=True)
class ConvertedRun:
    """What was written, and what the user should know of it."""

    requests: int
    dropped: int
    """Requests that failed in the benchmark."""
    notices: tuple[str, ...]


def convert_bench(result: Path, out: Path, engine: Mapping[str, Any] | None = None) -> ConvertedRun:
    """Write the benchmark `result` as a run folder at `out`, made if absent.

    `engine` holds the server's settings, of ENGINE_KEYS; those not given are null. Raises TraceError
    for a file that is not such a result, or that lacks what a replay needs.
    """
    settings = _settings(engine or {})
    bench = _read(result)
    requests, dropped = _requests(bench, result)
    settings["model"] = settings["model"] or bench.get("model_id")
    load = {key: bench[key] for key in ("request_rate", "burstiness", "max_concurrency") if key in bench}
    notices = _notices(bench, settings, dropped)
    out.mkdir(parents=True, exist_ok=True)
    described = {**settings, "source": "vllm bench serve --save-detailed", "load": load}
    write_whole(out / "run.json", json.dumps(described, indent=1) + "\n")
    write_whole(out / "trace.jsonl", "".join(map(_trace_line, requests)))
    write_whole(out / "requests.csv", csv_text(REQUEST_COLUMNS, map(_request_row, requests)))
    return ConvertedRun(len(requests), dropped, notices)


def _settings(engine: Mapping[str, Any]) -> dict[str, Any]:
    for key in engine:
        if key not in ENGINE_KEYS:
            raise TraceError(f"engine setting {key!r} is not known; {suggestion(key, ENGINE_KEYS)}")
    return {key: engine.get(key, "vllm" if key == "engine" else None) for key in ENGINE_KEYS}


def _read(path: Path) -> dict[str, Any]:
    try:
        bench = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file") from None
    except ValueError as error:
        raise TraceError(
            f"{path}: not one JSON object ({error}); was it written with --append-result?"
        ) from None
    missing = [key for key in _DETAILS if not isinstance(bench, dict) or key not in bench]
    if missing:
        raise TraceError(
            f"{path}: has no {', '.join(missing)}; write it by vllm bench serve --save-result --save-detailed"
        )
    lengths = {key: len(bench[key]) for key in (*_DETAILS, "start_times", "errors") if bench.get(key)}
    if len(set(lengths.values())) != 1:
        raise TraceError(f"{path}: its lists differ in length: {lengths}")
    return dict(bench)


def _requests(bench: Mapping[str, Any], path: Path) -> tuple[list[MeasuredRequest], int]:
    """The completed requests in order of arrival, and how many failed."""
    count = len(bench["ttfts"])
    starts, errors = _starts(bench, path), bench.get("errors") or [""] * count
    finished = [row for row in range(count) if bench["output_lens"][row] and not errors[row]]
    if not finished:
        raise TraceError(f"{path}: none of its {count} requests completed")
    first_start = min(starts[row] for row in finished)
    requests = [_request(bench, path, row, starts[row] - first_start) for row in finished]
    return sorted(requests, key=lambda request: request.arrival_s), count - len(finished)


def _request(bench: Mapping[str, Any], path: Path, row: int, arrival_s: float) -> MeasuredRequest:
    gaps_s = [bench["ttfts"][row], *bench["itls"][row]]
    if not all(isinstance(gap, (int, float)) and math.isfinite(gap) and gap >= 0 for gap in gaps_s):
        raise TraceError(f"{path}: request {row}: ttfts and itls must be finite and >= 0")
    times_s = list(accumulate([arrival_s, *gaps_s]))
    lengths = bench["input_lens"][row], bench["output_lens"][row]
    return MeasuredRequest(f"bench-{row}", arrival_s, *lengths, times_s[1], times_s[-1])


def _starts(bench: Mapping[str, Any], path: Path) -> Sequence[float]:
    """When each request was sent, in seconds on the client's clock."""
    if bench.get("start_times"):
        return list(bench["start_times"])
    if _at_once(bench):
        return [0.0] * len(bench["ttfts"])
    raise TraceError(
        f"{path}: has no start_times, so arrivals are unknown; vLLM writes them since January 2026 "
        "(pull request 32667); an older result can be used only with --request-rate inf and no "
        "--max-concurrency"
    )


def _at_once(bench: Mapping[str, Any]) -> bool:
    """Whether every request was sent at the start."""
    return bench.get("request_rate") in ("inf", math.inf) and not bench.get("max_concurrency")


def _notices(bench: Mapping[str, Any], settings: Mapping[str, Any], dropped: int) -> tuple[str, ...]:
    notices = []
    if dropped:
        notices.append(f"{dropped} requests failed in the benchmark and are left out")
    if not bench.get("start_times"):
        notices.append("no start_times: every request is taken to arrive at 0")
    needed = ("max_num_seqs", "max_num_batched_tokens", "gpu", "num_gpu_blocks")
    unknown = [key for key in needed if settings[key] is None]
    if unknown:
        notices.append(f"the benchmark does not record the engine: fill in {', '.join(unknown)} in run.json")
    return tuple(notices)


def _trace_line(request: MeasuredRequest) -> str:
    line = {
        "timestamp": round(request.arrival_s * 1_000, 6),
        "input_length": request.prompt_tokens,
        "output_length": request.output_tokens,
    }
    return json.dumps(line) + "\n"


def _request_row(request: MeasuredRequest) -> tuple[Any, ...]:
    return (
        request.request_id,
        f"{request.arrival_s:.6f}",
        request.prompt_tokens,
        request.output_tokens,
        None,
        None,
        f"{request.first_token_s:.6f}",
        f"{request.last_token_s:.6f}",
    )
