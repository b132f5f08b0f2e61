"""Limits on metrics of a summary: which way each goes, whether it is kept, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping

from sim.report.tables import seconds, shown

Limits = Mapping[str, float]
"""Largest values of metrics by their path in the summary; of those in AT_LEAST, smallest values."""

AT_LEAST = ("slo_attainment",)

WORDS = {"queue_s": "queue delay", "slo_attainment": "SLO attainment"}


def kept(name: str, value: float | None, limit: float) -> bool:
    """Whether metric `name` keeps its limit; one that has no value does."""
    if value is None:
        return True
    return value >= limit if name.startswith(AT_LEAST) else value <= limit


def told(limits: Limits) -> str:
    """`TBT p99 <= 100 ms and queue delay p50 <= 2.00 s`."""
    return " and ".join(
        f"{metric_name(name)} {'>=' if name.startswith(AT_LEAST) else '<='} {metric_value(name, limit)}"
        for name, limit in limits.items()
    )


def metric_name(path: str) -> str:
    """`tbt_s.p99` as `TBT p99`."""
    metric, _, statistic = path.partition(".")
    return f"{WORDS.get(metric) or metric.removesuffix('_s').upper()} {statistic}".strip()


def metric_value(path: str, value: float | None) -> str:
    """A value of the metric at `path` with its unit."""
    if value is None:
        return "-"
    metric = path.partition(".")[0]
    if metric == "slo_attainment":
        return shown(value, "share")
    return seconds(value) if metric.endswith("_s") else f"{value:.4g}"


def objectives_told(objectives: Mapping[str, float | None], classes: bool) -> str:
    """A request's own limits: `TTFT <= 1.00 s, TBT <= 100 ms`."""
    asked = {key: limit for key, limit in objectives.items() if limit is not None}
    known = [f"{metric_name(key)} <= {seconds(limit)}" for key, limit in asked.items()]
    return ", ".join([*known, *(["and those of its class"] if classes else [])])
