"""Tables for a terminal: one run, or several side by side. Returns rich renderables, prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sim.report.view import RunView

Summary = Mapping[str, Any]

LATENCIES = (
    ("TTFT", "ttft_s"),
    ("TBT", "tbt_s"),
    ("TPOT", "tpot_s"),
    ("E2E", "e2e_s"),
    ("queue delay", "queue_s"),
)
STATISTICS = ("mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True)
class Row:
    """One line of a comparison: where its figure is in summary.json, and how it reads."""

    label: str
    path: tuple[str, ...]
    unit: str
    better: str = ""
    """low or high if one of them is plainly better; the best run's figure is then bold."""
    blocks: tuple[str, ...] = ()
    """Where the number of blocks is that stands in for the share of an unlimited cache."""


COMPARISON: tuple[tuple[Row, ...], ...] = (
    (
        Row("TTFT p50", ("ttft_s", "p50"), "time", "low"),
        Row("TTFT p99", ("ttft_s", "p99"), "time", "low"),
        Row("TBT p50", ("tbt_s", "p50"), "time", "low"),
        Row("TBT p99", ("tbt_s", "p99"), "time", "low"),
        Row("TBT max", ("tbt_s", "max"), "time", "low"),
        Row("E2E p50", ("e2e_s", "p50"), "time", "low"),
        Row("queue delay p50", ("queue_s", "p50"), "time", "low"),
    ),
    (
        Row("requests/s", ("throughput", "requests_per_s"), "rate", "high"),
        Row("output tokens/s", ("throughput", "output_tokens_per_s"), "rate", "high"),
        Row("  in the steady window", ("steady_throughput", "output_tokens_per_s"), "rate", "high"),
        Row("goodput, requests/s", ("goodput",), "rate", "high"),
        Row("SLO attainment", ("slo_attainment",), "share", "high"),
    ),
    (
        Row("makespan", ("makespan_s",), "time", "low"),
        Row("finished", ("num_finished",), "count"),
        Row("rejected", ("num_rejected",), "count"),
        Row("preemptions", ("num_preemptions",), "count"),
        Row("iterations", ("num_iterations",), "count"),
        Row("GPU busy", ("gpu_busy",), "share"),
        Row("KV peak", ("kv_cache", "peak_share"), "share", blocks=("kv_peak",)),
        Row("idle slots", ("waste", "idle_slot_share"), "share"),
        Row("simulated in", ("simulator", "wall_s"), "time"),
    ),
)


def run_table(view: RunView) -> Group:
    """Latencies of one run by statistic, and below them its other figures in one line each."""
    latency = Table(title=view.name, title_justify="left", title_style="bold", header_style="bold")
    latency.add_column("")
    for statistic in STATISTICS:
        latency.add_column(statistic, justify="right")
    for label, key in LATENCIES:
        latency.add_row(label, *(seconds(view.summary[key][name]) for name in STATISTICS))
    facts = Table.grid(padding=(0, 2))
    for label, text in _facts(view.summary):
        facts.add_row(Text(label, style="bold"), text)
    return Group(latency, facts, *_notices([view]))


def seconds(value: float | None) -> str:
    """A duration for people: three digits and a unit, `-` where there is none."""
    if value is None:
        return "-"
    for size, unit, factor in ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6)):
        if value >= size * 0.9995:
            return f"{_digits(value * factor)} {unit}"
    return f"{value} s"


def _digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


_READS: Mapping[str, Callable[[float], str]] = {
    "time": seconds,
    "rate": _digits,
    "share": lambda value: f"{100 * value:.1f} %",
    "count": lambda value: f"{value:,.0f}",
    "times": lambda value: f"{_digits(value)} x" if value >= 9.9995 else f"{value:.3f} x",
}


def shown(value: float | None, unit: str) -> str:
    """`value` for people; `unit` is one of time (s), rate, share, count and times."""
    return "-" if value is None else _READS[unit](value)


def figure(summary: Summary, path: tuple[str, ...]) -> Any:
    """What is at `path` in a summary; None if it does not reach that far."""
    found: Any = summary
    for key in path:
        found = found.get(key)
        if found is None:
            return None
    return found


def _facts(summary: Summary) -> list[tuple[str, str]]:
    """The figures of one run that are not latencies, as labelled sentences."""
    facts = [
        ("throughput", _rates(summary["throughput"])),
        (_window(summary), _rates(summary["steady_throughput"])),
        ("requests", _requests(summary)),
        ("replica", _replica(summary)),
    ]
    if summary["slo_attainment"] is not None:
        limits = ", ".join(
            f"{key.removesuffix('_s').upper()} <= {seconds(limit)}"
            for key, limit in summary["slo"].items()
            if limit is not None
        )
        met = shown(summary["slo_attainment"], "share")
        goodput = shown(summary["goodput"], "rate")
        facts.append(("SLO", f"{met} met ({limits}); goodput {goodput} requests/s"))
    if figure(summary, ("waste", "idle_slot_share")) is not None:
        facts.append(("waste", _waste(summary["waste"])))
    simulator = summary["simulator"]
    rate = shown(simulator["requests_per_wall_s"], "rate")
    facts.append(("simulated in", f"{seconds(simulator['wall_s'])} ({rate} requests/s)"))
    return facts


def _rates(throughput: Mapping[str, float | None]) -> str:
    return (
        f"{shown(throughput['requests_per_s'], 'rate')} requests/s, "
        f"{shown(throughput['output_tokens_per_s'], 'rate')} output tokens/s, "
        f"{shown(throughput['total_tokens_per_s'], 'rate')} tokens/s in all"
    )


def _window(summary: Summary) -> str:
    steady = summary["steady_throughput"]
    return f"steady {steady['window_start_s']:.0f}-{steady['window_end_s']:.0f} s"


def _requests(summary: Summary) -> str:
    parts = [f"{summary['num_finished']:,} of {summary['num_requests']:,} finished"]
    parts += [
        f"{summary[key]:,} {label}"
        for key, label in (("num_rejected", "rejected"), ("num_preemptions", "preemptions"))
        if summary[key]
    ]
    return f"{', '.join(parts)}; {summary['peak_concurrency']:,} at once at most"


def _replica(summary: Summary) -> str:
    cache = summary["kv_cache"]
    kv = f"KV peak {summary['kv_peak']:,}"
    if cache["num_blocks"] is not None:
        kv += f" of {cache['num_blocks']:,}"
    return (
        f"{summary['num_iterations']:,} iterations in {seconds(summary['makespan_s'])}, "
        f"busy {shown(summary['gpu_busy'], 'share')}; {kv} blocks"
    )


def _waste(waste: Mapping[str, Any]) -> str:
    share = shown(waste["idle_slot_share"], "share")
    return f"{share} of the slots idle, {waste['padded_prefill_tokens']:,} prefill tokens of padding"


def _notices(views: Sequence[RunView]) -> list[Text]:
    """Each notice once, whichever runs it came from."""
    notices = dict.fromkeys(notice for view in views for notice in view.summary["notices"])
    return [Text(f"note: {notice}", style="dim") for notice in notices]
