"""Metrics: every figure of summary.json, each defined here and nowhere else (design.md section 4).

Owns the definitions; how percentiles are taken is in percentiles.py, SLOs in objectives.py. All
functions are pure. What does not exist is None: an empty set has no percentile and no mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.record import FINISHED, REJECTED, RunRecord
from sim.core.units import NS_PER_S, UNSET_NS, column_to_seconds, ns_to_seconds
from sim.report.groups import by_label
from sim.report.objectives import SLO_KEYS, Limits, Objectives, judge
from sim.report.percentiles import describe, describe_weighted

Times = NDArray[np.int64]


def since(later_ns: Times, earlier_ns: Times) -> Times:
    """later - earlier by row, UNSET_NS where either has not happened."""
    known = (later_ns != UNSET_NS) & (earlier_ns != UNSET_NS)
    return np.where(known, later_ns - np.where(known, earlier_ns, 0), UNSET_NS)


def ttft_ns(record: RunRecord) -> Times:
    """Time to first token: first token - arrival."""
    return since(record.first_token_ns, record.arrival_ns)


def queue_ns(record: RunRecord) -> Times:
    """Queue delay: first scheduled - arrival."""
    return since(record.first_scheduled_ns, record.arrival_ns)


def e2e_ns(record: RunRecord) -> Times:
    """End to end: last token - arrival, of finished requests."""
    return since(record.finish_ns, record.arrival_ns)


def tpot_s(record: RunRecord) -> NDArray[np.float64]:
    """Time per output token, (last - first) / (n - 1) in seconds; NaN for one output token."""
    decode_s = column_to_seconds(since(record.finish_ns, record.first_token_ns))
    gaps = record.trace.output_tokens - 1
    return np.where(gaps > 0, decode_s / np.maximum(gaps, 1), np.nan)


def normalized_latency_s(record: RunRecord) -> NDArray[np.float64]:
    """E2E / output tokens, in seconds a token."""
    return column_to_seconds(e2e_ns(record)) / record.trace.output_tokens


def span_ns(record: RunRecord) -> tuple[int, int] | None:
    """First arrival and last completion: the whole run. None if nothing finished."""
    finishes = record.finish_ns[record.finish_ns != UNSET_NS]
    arrivals = record.arrival_ns[record.arrival_ns != UNSET_NS]
    return (int(arrivals.min()), int(finishes.max())) if len(finishes) else None


def throughput(record: RunRecord) -> dict[str, float | None]:
    """Finished requests and their tokens over the whole run (first arrival to last completion)."""
    span = span_ns(record)
    done = record.status == FINISHED
    output = int(record.trace.output_tokens[done].sum())
    prompt = int(record.trace.prompt_tokens[done].sum())
    return _rates(span, int(done.sum()), output, prompt)


def steady_throughput(record: RunRecord) -> dict[str, float | None]:
    """The same inside the record's steady window, whose [start, end) is stated.

    Output tokens count when they are emitted; a request and its prompt when the request finishes.
    """
    start, end = record.steady_window_ns
    rates = _rates(
        record.steady_window_ns,
        record.steady_requests,
        record.steady_output_tokens,
        record.steady_prompt_tokens,
    )
    return {"window_start_s": ns_to_seconds(start), "window_end_s": ns_to_seconds(end), **rates}


def _rates(
    span: tuple[int, int] | None, requests: int, output_tokens: int, prompt_tokens: int
) -> dict[str, float | None]:
    length = 0 if span is None else span[1] - span[0]
    amounts = {
        "requests_per_s": requests,
        "output_tokens_per_s": output_tokens,
        "total_tokens_per_s": output_tokens + prompt_tokens,
    }
    return {key: _per_second(amount, length) for key, amount in amounts.items()}


def _per_second(amount: int, length_ns: int) -> float | None:
    return amount * NS_PER_S / length_ns if length_ns > 0 else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def peak_concurrency(arrival_ns: Times, finish_ns: Times) -> int:
    """Most requests in the system at once; at equal times a departure counts before an arrival.

    Rows that never arrived (UNSET_NS) do not count; rows that never finished never leave.
    """
    arrivals = np.sort(arrival_ns[arrival_ns != UNSET_NS])
    departures = np.sort(finish_ns[(finish_ns != UNSET_NS) & (arrival_ns != UNSET_NS)])
    if len(arrivals) == 0:
        return 0
    present = np.arange(1, len(arrivals) + 1) - np.searchsorted(departures, arrivals, side="right")
    return int(present.max())


def waste(record: RunRecord) -> dict[str, int | float | None]:
    """What padding computed for nothing; all 0 and None under policies that do not pad."""
    slots = record.idle_slot_iterations + record.used_slot_iterations
    return {
        "padded_prefill_tokens": record.padded_prefill_tokens,
        "idle_slot_iterations": record.idle_slot_iterations,
        "used_slot_iterations": record.used_slot_iterations,
        "idle_slot_share": _share(record.idle_slot_iterations, slots),
    }


def prefix_cache(record: RunRecord) -> dict[str, int | float | None]:
    """Prefill tokens looked up in the prefix cache, and those found; 0 and None without one."""
    return {
        "query_tokens": record.prefix_query_tokens,
        "hit_tokens": record.prefix_hit_tokens,
        "hit_rate": _share(record.prefix_hit_tokens, record.prefix_query_tokens),
    }


def objectives(
    record: RunRecord, slo: Limits | None, slo_classes: Mapping[str, Limits] | None
) -> Objectives:
    """Each request against its SLOs."""
    columns = {
        "ttft_s": column_to_seconds(ttft_ns(record)),
        "tbt_s": column_to_seconds(record.max_tbt_ns),
        "tpot_s": tpot_s(record),
        "e2e_s": column_to_seconds(e2e_ns(record)),
    }
    names = record.trace.slo_class
    labels = None if names is None else np.array(names, dtype=object)
    return judge(record.status == FINISHED, columns, slo, slo_classes, labels)


def summarize(
    record: RunRecord,
    *,
    slo: Limits | None,
    provenance: Mapping[str, Any],
    slo_classes: Mapping[str, Limits] | None = None,
) -> dict[str, Any]:
    """The contents of summary.json (design.md section 9), ready for JSON: no NaN, None for missing.

    `slo` is in seconds by SLO_KEYS. `slo_classes` overrides it for requests of those classes.
    """
    span = span_ns(record)
    length_ns = 0 if span is None else span[1] - span[0]
    judged = objectives(record, slo, slo_classes)
    return {
        **_latencies(record),
        "throughput": throughput(record),
        "steady_throughput": steady_throughput(record),
        "goodput": _per_second(judged.num_met, length_ns),
        "slo_attainment": judged.attainment,
        "slo": {key: (slo or {}).get(key) for key in SLO_KEYS},
        "slo_attainment_by": dict(judged.met_by_key),
        "by_slo_class": _by_label(record, record.trace.slo_class, judged),
        "by_client": _by_label(record, record.trace.client, judged),
        "makespan_s": None if span is None else ns_to_seconds(length_ns),
        **_counts(record),
        "gpu_busy": _share(record.busy_ns, length_ns),
        "kv_peak": record.kv_peak_blocks,
        "kv_cache": {
            "num_blocks": record.num_blocks,
            "block_size": record.block_size,
            "peak_share": _share(record.kv_peak_blocks, record.num_blocks or 0),
        },
        "prefix_cache": prefix_cache(record),
        "waste": waste(record),
        "provenance": {**provenance, **_trace_provenance(record)},
        "notices": list(record.notices),
        "simulator": _simulator(record),
    }


def _by_label(
    record: RunRecord, labels: Sequence[str | None] | None, judged: Objectives
) -> dict[str, dict[str, Any]] | None:
    """Metrics of the requests of each label; max_tbt_s is each request's longest TBT."""
    seconds = {
        "ttft_s": column_to_seconds(ttft_ns(record)),
        "max_tbt_s": column_to_seconds(record.max_tbt_ns),
        "tpot_s": tpot_s(record),
        "e2e_s": column_to_seconds(e2e_ns(record)),
        "queue_s": column_to_seconds(queue_ns(record)),
    }
    return by_label(labels, record.status == FINISHED, seconds, record.trace.output_tokens, judged)


def _latencies(record: RunRecord) -> dict[str, dict[str, float | None]]:
    tbt = describe_weighted(column_to_seconds(record.tbt_ns), record.tbt_counts)
    return {
        "ttft_s": describe(_known(column_to_seconds(ttft_ns(record)))),
        "tbt_s": tbt,
        "tpot_s": describe(_known(tpot_s(record))),
        "e2e_s": describe(_known(column_to_seconds(e2e_ns(record)))),
        "queue_s": describe(_known(column_to_seconds(queue_ns(record)))),
        "normalized_latency_s": describe(_known(normalized_latency_s(record))),
    }


def _known(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return column[~np.isnan(column)]


def _counts(record: RunRecord) -> dict[str, int | None]:
    accepted = np.where(record.status == REJECTED, UNSET_NS, record.arrival_ns)
    return {
        "num_requests": len(record.trace),
        "num_finished": int((record.status == FINISHED).sum()),
        "num_rejected": int((record.status == REJECTED).sum()),
        "num_preemptions": int(record.num_preemptions.sum()),
        "num_iterations": record.num_iterations,
        "extrapolated_iterations": record.extrapolated_iterations,
        "num_output_tokens": record.output_tokens_emitted,
        "num_tbt": int(record.tbt_counts.sum()),
        "peak_concurrency": peak_concurrency(accepted, record.finish_ns),
    }


def _trace_provenance(record: RunRecord) -> dict[str, Any]:
    trace = record.trace
    return {
        "trace_name": trace.name,
        "trace_sha256": trace.hash,
        "trace_rows_dropped": dict(trace.dropped),
    }


def _simulator(record: RunRecord) -> dict[str, Any]:
    """Timings differ from run to run; the counters do not."""
    rate = len(record.trace) / record.wall_s if record.wall_s > 0 else None
    return {"wall_s": record.wall_s, "requests_per_wall_s": rate, **record.counters}
