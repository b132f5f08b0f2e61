"""Worker: what a process does with one cell, and what it keeps from cell to cell.

Traces, cost models and KV sizes are kept in the process that made them, by the digest of all they
were made from, so that each is loaded once a worker. This is the only state a worker has; it never
changes a result.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sim.api.inputs import Inputs, build_cost, build_trace, resolve_num_blocks
from sim.api.simulation import measure_with, was_interrupted
from sim.config import Config
from sim.core.errors import UserError
from sim.core.protocols import CostModel
from sim.core.registry import POLICIES
from sim.core.trace import Trace
from sim.sweeps.identity import code_digest, digest_of
from sim.trace.select import scaled_rate

T = TypeVar("T")

KEPT_REQUESTS = 2_000_000
"""Traces are forgotten, oldest first, beyond so many requests in all."""
KEPT_MODELS = 16
PARENT_CHECK_S = 0.5


@dataclass(frozen=True)
class Task:
    """A cell as it travels to a worker: paths are absolute, digests are those of identity.py."""

    index: int
    config: Config
    trace_digest: str
    cost_digest: str
    policy: type | None = None
    """The policy's class where a worker could not find it by name: one defined in a notebook or script."""


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: its metrics, or why there are none."""

    index: int
    metrics: Mapping[str, Any] | None
    error: str | None = None
    traceback: str | None = None
    """For an error that is not the user's."""
    notices: tuple[str, ...] = ()
    wall_s: float = 0.0
    code: str | None = None
    """The code that simulated (identity.code_digest)."""


class Kept(Generic[T]):
    """Values by key, the ones used last up to a total weight."""

    def __init__(self, capacity: int, weight: Callable[[T], int] = lambda value: 1) -> None:
        self._capacity = capacity
        self._weight = weight
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """The value of `key`, made if it is not there. The last one asked for is always kept."""
        if key not in self._values:
            self._values[key] = make()
        self._values.move_to_end(key)
        while len(self._values) > 1 and sum(map(self._weight, self._values.values())) > self._capacity:
            self._values.popitem(last=False)
        return self._values[key]


_traces: Kept[Trace] = Kept(KEPT_REQUESTS, len)
_costs: Kept[CostModel] = Kept(KEPT_MODELS)
_blocks: Kept[int | None] = Kept(KEPT_MODELS)
# A simulation is pure Python: threads of one process (Dask workers have them) would only take turns.
_one_at_a_time = threading.Lock()


def run_cell(task: Task) -> Outcome:
    """Simulate one cell. Whatever it raises is its outcome; only an interrupt is raised."""
    with _one_at_a_time:
        started = time.perf_counter()
        try:
            metrics, notices = _measure(task)
        except Exception as error:
            trail = None if isinstance(error, UserError) else traceback.format_exc()
            wall_s = time.perf_counter() - started
            return Outcome(task.index, None, _described(error), trail, (), wall_s, code_digest())
        return Outcome(task.index, metrics, None, None, notices, time.perf_counter() - started, code_digest())


def belong_to(parent: int) -> None:
    """Leave Ctrl-C to process `parent`, and end soon after it: a sweep that is killed leaves no process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, name="watch parent", daemon=True).start()


def _measure(task: Task) -> tuple[dict[str, Any], tuple[str, ...]]:
    if task.policy is not None:
        _register(str(task.config.policy.name), task.policy)
    inputs = Inputs(_trace(task), _cost(task), _num_blocks(task.config))
    record, _, summary = measure_with(task.config, inputs)
    if was_interrupted(record):
        raise KeyboardInterrupt
    return metrics_of(summary), tuple(record.notices)


def _register(name: str, cls: type) -> None:
    for field in dataclasses.fields(cls):
        # a class that came by pickle has copies of MISSING, which nothing takes for it
        if isinstance(field.default, type(dataclasses.MISSING)):
            field.default = dataclasses.MISSING
        if isinstance(field.default_factory, type(dataclasses.MISSING)):
            field.default_factory = dataclasses.MISSING
    POLICIES.add(name, cls)


def _trace(task: Task) -> Trace:
    """The task's trace. Only one rate of it is kept, and scaled, unless rows are dropped by then."""
    section = task.config.trace
    if section.over_cap == "drop":
        key = f"{task.trace_digest} {section.rate_scale!r}"
        return _traces.get(key, lambda: build_trace(task.config))
    plain = task.config.updated(trace=section.updated(rate_scale=1.0))
    return scaled_rate(_traces.get(task.trace_digest, lambda: build_trace(plain)), section.rate_scale)


def _cost(task: Task) -> CostModel:
    return _costs.get(task.cost_digest, lambda: build_cost(task.config))


def _num_blocks(config: Config) -> int | None:
    key = digest_of([config.replica.model_dump(), config.kv_cache.model_dump()])
    return _blocks.get(key, lambda: resolve_num_blocks(config))


def metrics_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Every number of a summary by its dotted path, without provenance and the simulator's own figures."""
    results = {key: value for key, value in summary.items() if key not in ("provenance", "simulator")}
    return dict(_numbers(results, ""))


def _numbers(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif value is None or isinstance(value, int | float):
            yield prefix + key, value


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
