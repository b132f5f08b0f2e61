"""Tables of the `trace` command, as rich renderables; nothing is printed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table

from sim.trace.catalogue import PublicTrace
from sim.trace.goodness import Fitness

LENGTH_STATISTICS = ("mean", "min", "p5", "p25", "p50", "p75", "p95", "p99", "max", "sum")


def trace_tables(about: Mapping[str, Any]) -> Group:
    """What sim.trace.describe found, in two or three tables."""
    return Group(_summary(about), _lengths(about), *_load(about["offered_load"]))


def _summary(about: Mapping[str, Any]) -> Table:
    rate, burst, reuse = about["rate"], about["burstiness"], about["prefix_reuse"]
    table = _titled(f"{about['name']}: {about['num_requests']:,} requests", "figure", "value")
    rows: list[tuple[str, str]] = [
        ("duration", f"{number(about['duration_s'])} s"),
        ("arrival rate, mean", f"{number(rate['mean_per_s'])} /s"),
        (
            "arrival rate, busiest second and minute",
            f"{number(rate['peak_second_per_s'])} /s, {number(rate['peak_minute_per_s'])} /s",
        ),
        ("prompt tokens", f"{number(rate['prompt_tokens_per_s'])} /s"),
        ("output tokens", f"{number(rate['output_tokens_per_s'])} /s"),
        ("CV of gaps (Poisson: 1)", number(burst["gap_cv"])),
        (
            "index of dispersion in 1, 10, 60 s (Poisson: 1)",
            ", ".join(number(burst[f"dispersion_{window}s"]) for window in (1, 10, 60)),
        ),
        (
            "prompt/output correlation, rank and linear",
            ", ".join(number(about["correlation"][kind]) for kind in ("spearman", "pearson")),
        ),
    ]
    if about["sessions"]:
        found = about["sessions"]
        rows.append(
            (
                "sessions",
                f"{found['count']:,}, {number(found['mean_turns'])} turns on average, "
                f"think time {number(found['mean_think_s'])} s",
            )
        )
    if reuse:
        rows.append(
            (
                f"prefix reuse (blocks of {reuse['block_tokens'] or '?'} tokens, endless cache)",
                f"{100 * reuse['hit_fraction']:.1f} % of {reuse['blocks']:,} blocks",
            )
        )
    for name, counts in about["labels"].items():
        shown = ", ".join(f"{label} {count:,}" for label, count in list(counts.items())[:8])
        rows.append((name, shown + (" ..." if len(counts) > 8 else "")))
    rows.append(("hash", about["hash"][:16]))
    for row in rows:
        table.add_row(*row)
    return table


def _lengths(about: Mapping[str, Any]) -> Table:
    """A line a statistic: ten columns of numbers of eight digits do not fit 80."""
    kinds = ("prompt", "output", "total")
    table = _titled(None, "tokens", *kinds)
    for statistic in LENGTH_STATISTICS:
        table.add_row(statistic, *(number(about[f"{kind}_tokens"][statistic]) for kind in kinds))
    return table


def _load(load: Mapping[str, Any] | None) -> list[Table]:
    if load is None:
        return []
    table = _titled("Offered load of one replica (above 1 the queue grows)", "figure", "value")
    for name, value in (
        ("one request at a time", number(load["alone"])),
        (f"decodes in batches of {load['batch_size']}, a lower bound", number(load["batched"])),
        ("the same in the busiest minute", number(load["peak"])),
        ("part that is prefill", f"{100 * load['prefill_share']:.0f} %"),
        ("verdict", load["verdict"]),
    ):
        table.add_row(name, value)
    return [table]


def goodness_table(rows: Sequence[Fitness]) -> Table:
    """A trace beside its model."""
    table = _titled("Goodness of fit", "figure", "trace", "model", "KS distance", "p value")
    for row in rows:
        table.add_row(row.figure, *(number(value) for value in (row.real, row.model, row.ks, row.p_value)))
    return table


def catalogue_table(catalogue: Mapping[str, PublicTrace]) -> Table:
    """The public traces that can be fetched."""
    table = _titled("Public traces", "name", "MB", "what", "licence")
    for name, entry in catalogue.items():
        table.add_row(name, number(entry.size_mb), entry.meaning, entry.licence)
    for column in table.columns[2:]:
        column.justify = "left"
    return table


def _titled(title: str | None, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def number(value: float | None) -> str:
    """Four significant digits, thousands set apart, whole numbers as they are; a dash for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
