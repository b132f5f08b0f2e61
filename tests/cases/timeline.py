"""What the case tests share: runs in which an iteration lasts 1 ns, so that a time counts iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.core.record import ITERATION_COLUMNS, RunRecord
from sim.core.trace import Trace
from tests.worlds import LinearCost, serve

ONE_NS = LinearCost(base=1)
DEFAULTS: dict[str, Any] = {"num_blocks": 1000, "block_size": 16}


def run(
    rows: Sequence[tuple[int, int, int]] | Trace,
    policy: Any,
    params: dict[str, Any] | None = None,
    *,
    cost: Any = ONE_NS,
    **settings: Any,
) -> RunRecord:
    """The run of (arrival_ns, prompt, output) rows in reference mode, one row an iteration.

    The same run in fast mode must have given the same token times, else the test fails here.
    """
    settings = DEFAULTS | settings
    record = serve(rows, policy, cost, params, mode="reference", **settings)
    fast = serve(rows, policy, cost, params, mode="fast", **settings)
    assert fast.token_times == record.token_times
    return record


def tokens(record: RunRecord) -> list[list[int]]:
    """Every request's token times in ns, by trace row; [] for a rejected one."""
    times = record.token_times or {}
    return [times.get(row, []) for row in range(len(record.trace))]


def column(record: RunRecord, name: str) -> list[int]:
    """One column of the iterations table."""
    return [int(value) for value in record.iterations[:, ITERATION_COLUMNS.index(name)]]


def batch_sizes(record: RunRecord) -> list[int]:
    """Sequences in each iteration: decodes and prefills."""
    pairs = zip(column(record, "num_decodes"), column(record, "num_prefills"), strict=True)
    return [decodes + prefills for decodes, prefills in pairs]
