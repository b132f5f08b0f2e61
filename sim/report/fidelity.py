"""Fidelity: a simulated run beside the measured one. Pure functions over columns of seconds.

Owns the error table of `validate` and what enters its single figure; reading measured runs is
sim/api/measured.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]

METRICS = ("ttft_queued_s", "ttft_s", "tpot_s", "e2e_s")
SCORED = ("ttft_queued_s", "tpot_s", "e2e_s")
"""The metrics of mean_abs_error_pct: each with every statistic."""
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def latencies(
    arrival: Seconds, queued: Seconds, first: Seconds, last: Seconds, output_tokens: NDArray[np.int64]
) -> dict[str, Seconds]:
    """Every metric, one value a request; NaN where a request has none."""
    gaps = np.where(output_tokens > 1, output_tokens - 1, np.nan)
    return {
        "ttft_queued_s": first - queued,
        "ttft_s": first - arrival,
        "tpot_s": (last - first) / gaps,
        "e2e_s": last - arrival,
    }


def error_table(
    measured: Mapping[str, Seconds], simulated: Mapping[str, Seconds]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """By metric and statistic: measured, simulated, error_pct. None for a metric nobody measured."""
    return {
        metric: {
            statistic: compared(
                _statistic(measured[metric], statistic), _statistic(simulated[metric], statistic)
            )
            for statistic in STATISTICS
        }
        for metric in METRICS
    }


def compared(measured: float | None, simulated: float | None) -> dict[str, float | None]:
    """Both figures, and the error in percent of the measured one."""
    error = None if measured is None or simulated is None or not measured else simulated / measured - 1
    return {
        "measured": measured,
        "simulated": simulated,
        "error_pct": None if error is None else 100 * error,
    }


def mean_abs_error_pct(table: Mapping[str, Mapping[str, Mapping[str, float | None]]]) -> float | None:
    """Mean of |error_pct| over SCORED x STATISTICS (TTFT from arrival where queued is unknown)."""
    scored = [_measured_metric(table, metric) for metric in SCORED]
    errors = [
        abs(error)
        for metric in scored
        for statistic in STATISTICS
        if (error := table[metric][statistic]["error_pct"]) is not None
    ]
    return float(np.mean(errors)) if errors else None


def per_request_errors(
    measured: Mapping[str, Seconds], simulated: Mapping[str, Seconds]
) -> dict[str, dict[str, float | None]]:
    """Median over requests of the signed and of the absolute error in percent, by metric."""
    result = {}
    for metric in METRICS:
        known = np.isfinite(measured[metric]) & np.isfinite(simulated[metric]) & (measured[metric] > 0)
        errors = 100 * (simulated[metric][known] / measured[metric][known] - 1)
        result[metric] = {
            "median_error_pct": float(np.median(errors)) if len(errors) else None,
            "median_abs_error_pct": float(np.median(np.abs(errors))) if len(errors) else None,
        }
    return result


def boundary_at_or_after(times: Seconds, starts: Seconds, ends: Seconds) -> Seconds:
    """When an engine takes in what arrives at `times`: at once if idle, else between two iterations.

    What arrives exactly when an iteration starts is in time for it.
    """
    before = np.searchsorted(starts, times, side="left") - 1
    running = (before >= 0) & (ends[np.maximum(before, 0)] > times)
    return np.where(running, ends[np.maximum(before, 0)], times)


def in_system(at: Seconds, entered: Seconds, left: Seconds) -> NDArray[np.int64]:
    """Requests that have entered and not left at each time."""
    inside = np.searchsorted(np.sort(entered), at, "right") - np.searchsorted(np.sort(left), at, "right")
    return np.asarray(inside, dtype=np.int64)


def percentage_errors(measured: Seconds, simulated: Seconds) -> dict[str, Any]:
    """MAPE and signed bias in percent, and how many points."""
    errors = 100 * (simulated / measured - 1)
    return {
        "points": len(errors),
        "mape_pct": float(np.abs(errors).mean()) if len(errors) else None,
        "bias_pct": float(errors.mean()) if len(errors) else None,
    }


def _statistic(values: Seconds, statistic: str) -> float | None:
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    return float(known.mean() if statistic == "mean" else np.percentile(known, float(statistic[1:])))


def _measured_metric(table: Mapping[str, Mapping[str, Mapping[str, float | None]]], metric: str) -> str:
    if metric == "ttft_queued_s" and table[metric]["mean"]["measured"] is None:
        return "ttft_s"
    return metric
