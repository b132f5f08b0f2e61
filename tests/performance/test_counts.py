"""Speed without a clock: how much work fixed runs take, exactly. A golden count stands beside its law."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import simpy

import policies  # noqa: F401  (registers the policies)
from sim.core.batch import Batch
from sim.core.record import RunRecord
from sim.core.registry import POLICIES
from sim.core.trace import Trace
from sim.cost import load_cost_model
from sim.engine import EngineSettings, simulate
from sim.trace.load import load_trace
from sim.trace.select import limited, scaled_rate

COST = {
    "kind": "coefficients",
    "decode": {"base_us": 12_500, "per_sequence_us": 15, "per_context_token_us": 0.08},
    "mixed": {
        "base_us": 12_500,
        "per_token_us": 40,
        "per_sequence_us": 15,
        "per_context_token_us": 0.12,
        "per_attention_pair_us": 0.0015,
    },
}
"""Like a GPU of the day; written out, since counts depend on every number."""


@dataclass
class Counted:
    """A cost model that counts how often it is asked."""

    inner: Any
    calls: dict[str, int] = field(default_factory=lambda: {"iteration": 0, "run": 0})
    needs_context_spread = False

    def iteration_ns(self, batch: Batch) -> int:
        self.calls["iteration"] += 1
        return int(self.inner.iteration_ns(batch))

    def decode_run_ns(self, batch: Batch, iterations: int) -> np.ndarray:
        self.calls["run"] += 1
        return np.asarray(self.inner.decode_run_ns(batch, iterations))


@dataclass(frozen=True)
class Work:
    record: RunRecord
    events: int
    cost_calls: int


@pytest.fixture(scope="module")
def sample() -> Trace:
    return limited(load_trace("traces/azure_conv_sample.csv"), 400)


def work(monkeypatch: pytest.MonkeyPatch, trace: Trace, policy: str, mode: str = "fast") -> Work:
    events = 0
    step = simpy.Environment.step

    def counted(env: simpy.Environment) -> None:
        nonlocal events
        events += 1
        step(env)

    monkeypatch.setattr(simpy.Environment, "step", counted)
    cost = Counted(load_cost_model(COST))
    record = simulate(trace, POLICIES.get(policy)(), cost, EngineSettings(num_blocks=20_000, mode=mode))
    monkeypatch.undo()
    # Beyond the work itself SimPy steps once more for every process's start and end, and at the very end.
    return Work(record, events, sum(cost.calls.values()))


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("rate", [0.25, 8])
def test_work_grows_with_what_changes_not_with_tokens(
    monkeypatch: pytest.MonkeyPatch, sample: Trace, policy: str, rate: float
) -> None:
    """An event a row of iterations and one an arrival; a plan a row; under three cost calls a row.

    A jump ends at an arrival, at a completion, or at a block shortage, and whole prompts or chunks
    have rows of their own: so the rows are bounded by those, however many tokens there are.
    """
    done = work(monkeypatch, scaled_rate(sample, rate), policy)
    rows, requests = len(done.record.iterations), len(sample)
    assert done.events <= rows + 2 * requests + 10
    assert done.record.counters["policy_calls"] <= rows + 2 * requests
    assert done.cost_calls <= 5 * rows
    if rate < 1:
        chunks = int(np.ceil(sample.prompt_tokens / 512).sum())
        assert rows <= 2 * requests + 2 * chunks + requests
        assert done.record.num_iterations > 8 * rows


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_a_run_counts_its_own_work(
    monkeypatch: pytest.MonkeyPatch, sample: Trace, policy: str, mode: str
) -> None:
    """What summary.json says of the work is what was done; SimPy looks once more to find nothing left."""
    done = work(monkeypatch, limited(sample, 100), policy, mode)
    counters = done.record.counters
    assert counters["events"] == done.events - 1
    assert counters["cost_calls"] == done.cost_calls
    if mode == "reference":
        rows = done.record.num_iterations
        assert (len(done.record.iterations), counters["cost_calls"]) == (rows, rows)


COUNTS = ("rows", "iterations", "events", "policy_calls", "cost_calls")
GOLDEN = {
    ("static", 0.25): (761, 18574, 1166, 761, 1530),
    ("static", 8): (621, 12591, 1024, 621, 1217),
    ("continuous", 0.25): (1138, 24374, 1556, 1138, 1920),
    ("continuous", 8): (461, 976, 864, 461, 661),
    ("prefill_first", 0.25): (1139, 24411, 1557, 1139, 1925),
    ("prefill_first", 8): (561, 1174, 964, 561, 843),
    ("stall_free", 0.25): (1789, 24390, 2207, 1789, 2552),
    ("stall_free", 8): (1082, 1459, 1485, 1082, 1162),
    ("vllm_v1", 0.25): (1208, 24375, 1626, 1208, 1991),
    ("vllm_v1", 8): (518, 1017, 921, 518, 717),
}


@pytest.mark.parametrize(("policy", "rate"), GOLDEN)
def test_counts_of_a_fixed_run(sample: Trace, policy: str, rate: float) -> None:
    """Golden counts: a change that makes any of them larger makes every run slower."""
    settings = EngineSettings(num_blocks=20_000)
    record = simulate(scaled_rate(sample, rate), POLICIES.get(policy)(), load_cost_model(COST), settings)
    counted = {"rows": len(record.iterations), "iterations": record.num_iterations, **record.counters}
    assert tuple(counted[name] for name in COUNTS) == GOLDEN[policy, rate]


def test_a_jump_saves_most_of_the_events(monkeypatch: pytest.MonkeyPatch, sample: Trace) -> None:
    light = scaled_rate(sample, 0.25)
    fast, reference = (work(monkeypatch, light, "continuous", mode) for mode in ("fast", "reference"))
    assert fast.record.num_iterations == reference.record.num_iterations
    assert reference.events > 8 * fast.events
    assert reference.cost_calls > 5 * fast.cost_calls
