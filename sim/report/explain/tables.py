"""Explanations as tables for a terminal. Returns rich renderables, prints nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sim.core.units import ns_to_seconds
from sim.report.explain.causes import CAUSES
from sim.report.explain.choose import Explanation, Tail
from sim.report.tables import seconds

MOST_NAMED = 3
"""Requests behind one cause that are named; the others are counted."""


def explanation_table(explanations: Sequence[Explanation]) -> Table:
    """One block a latency: its length, when it was, and its causes, largest first."""
    table = Table(header_style="bold", show_lines=True)
    for title in ("request", "latency", "when"):
        table.add_column(title)
    table.add_column("why")
    for one in explanations:
        table.add_row(one.request_id, _latency(one), _when(one), _causes(one))
    return table


def tail_table(tail: Tail) -> Table:
    """What the latencies from a percentile on are made of, all together."""
    name = tail.what.upper()
    title = f"{name} from p{tail.percent:g} on: {tail.count:,}, mean {_time(tail.total_ns // tail.count)}"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("cause")
    table.add_column("mean", justify="right")
    table.add_column("share", justify="right")
    for cause, ns in tail.causes:
        table.add_row(CAUSES[cause], _time(ns // tail.count), _share(ns, tail.total_ns))
    return table


def _latency(one: Explanation) -> str:
    name = "TTFT" if one.what == "ttft" else f"gap before token {one.token}"
    return f"{name}\n{_time(one.length_ns)}"


def _when(one: Explanation) -> str:
    shared = "" if one.shared_by == 1 else f"\n{one.shared_by} requests share it"
    return f"{one.start_ns / 1e9:.3f} to {one.end_ns / 1e9:.3f} s{shared}"


def _causes(one: Explanation) -> Text:
    by_cause: dict[str, list[tuple[str | None, int]]] = defaultdict(list)
    for part in one.parts:
        by_cause[part.cause].append((part.by, part.ns))
    totals = {cause: sum(ns for _, ns in parts) for cause, parts in by_cause.items()}
    lines = [
        f"{_share(total, one.length_ns):>7}  {_time(total):>7}  {CAUSES[cause]}{_whose(by_cause[cause])}"
        for cause, total in sorted(totals.items(), key=lambda item: -item[1])
    ]
    return Text("\n".join(lines))


def _whose(parts: Sequence[tuple[str | None, int]]) -> str:
    """`: 17 (80 ms), 12 (3 ms), 4 more`: the requests behind a cause, largest part first."""
    named = [(by, ns) for by, ns in parts if by is not None]
    if not named:
        return ""
    listed = [f"request {by}" if len(parts) == 1 else f"{by} ({_time(ns)})" for by, ns in named[:MOST_NAMED]]
    more = len(named) - MOST_NAMED
    return ": " + ", ".join(listed + ([f"{more} more"] if more > 0 else []))


def _time(ns: int) -> str:
    return seconds(ns_to_seconds(ns))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
