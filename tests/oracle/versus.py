"""One random world, run through the oracle and through the package, and what must be equal of the two.

Owns the generation of worlds and the comparison; the test modules decide how many, the mutation run how few.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import policies  # noqa: F401  registers the built-in policies
from policies.continuous import Continuous
from sim.core.batch import Batch
from sim.core.protocols import Step
from sim.core.record import ITERATION_COLUMNS, REJECTED, RunRecord
from sim.core.registry import POLICIES
from sim.core.trace import Trace
from sim.core.units import NS_PER_S, UNSET_NS
from sim.engine import EngineSettings
from sim.engine import simulate as simulate_package
from tests.oracle.simulator import simulate as simulate_oracle

Requests = list[tuple[int, int, int]]
POLICY_NAMES = ("static", "continuous", "prefill_first", "stall_free", "skip_ahead")


@dataclass(frozen=True)
class LinearCost:
    """Integer nanoseconds, linear in everything a cost model may look at, rounded up to a multiple of `grid`.

    A coarse grid makes iteration ends meet arrivals at the same nanosecond; a grid of 1 makes that rare.
    """

    base: int = 1
    per_token: int = 0
    per_decode: int = 0
    per_context: int = 0
    per_pair: int = 0
    grid: int = 1

    def __call__(self, decodes: int, context: int, chunks: list[tuple[int, int]]) -> int:
        """What the oracle asks: written out again, so that the package's Batch is not trusted."""
        tokens = sum(c for c, _ in chunks)
        pairs = sum(c * p + c * (c + 1) // 2 for c, p in chunks)
        time = self.base + self.per_token * tokens + self.per_decode * decodes
        time += self.per_context * context + self.per_pair * pairs
        return -(-time // self.grid) * self.grid

    def iteration_ns(self, batch: Batch) -> int:
        chunks = [(chunk.tokens, chunk.cached) for chunk in batch.chunks]
        return self(batch.num_decodes, batch.decode_context_sum, chunks)

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        each = [self.iteration_ns(batch.after(i)) for i in range(iterations)]
        return np.array(each, dtype=np.int64)


@dataclass
class SkipAhead(Continuous):
    """continuous that also tries those behind one that does not fit.

    First come first served hides one rule: a victim stands in front and never fits in the iteration that
    preempted it, so nobody could be admitted there anyway (docs/testing.md).
    """

    def plan(self, step: Step) -> None:
        step.decode_all()
        for request in step.waiting:
            step.schedule(request)


@dataclass(frozen=True)
class World:
    """Everything a run depends on but the requests and the policy's name."""

    token_budget: int = 512
    max_batch_size: int = 8
    num_blocks: int = 1000
    block_size: int = 16
    memory: str = "paged"
    watermark: float = 0.0
    max_model_len: int | None = None
    max_wait_ns: int = 0
    cost: LinearCost = LinearCost()


def random_case(rng: np.random.Generator, *, ties: bool, memory: str) -> tuple[Requests, World]:
    """Up to 24 requests, or a few long ones, over a cache that holds one to four of the largest.

    With `ties`, arrivals and iteration times are multiples of ten, so that they keep meeting (and see
    `force_tie`); without, times are up to a hundred thousand times finer than the events.
    """
    grid = 10 if ties else 1
    scale = 1 if ties else int(rng.integers(1, 100_000))
    few = bool(rng.random() < 0.25)  # then the engine has long runs of equal batches to jump over
    count = int(rng.integers(1, 5 if few else 25))
    prompts = rng.integers(1, int(rng.choice([4, 20, 60])) + 1, count)
    outputs = rng.integers(1, int(rng.choice([40, 150] if few else [2, 10, 40])) + 1, count)
    span = int(rng.choice([1, 20, 200])) * scale
    arrivals = np.sort(rng.integers(0, span + 1, count)) * grid
    block_size = int(rng.choice([1, 2, 4, 16]))
    largest = -(-int((prompts + outputs - 1).max()) // block_size)
    num_blocks = max(1, int(largest * rng.choice([0.7, 1.0, 1.3, 2.0, 4.0])))
    token, decode, context, pair = (rng.integers(0, 4, 4) * scale // int(rng.choice([1, 3]))).tolist()
    cost = LinearCost(int(rng.integers(1, 30)) * scale, token, decode, context, pair, grid)
    world = World(
        token_budget=int(rng.choice([1, 2, 7, 16, 64])),
        max_batch_size=int(rng.choice([1, 2, 3, 8, 32])),
        num_blocks=num_blocks,
        block_size=block_size,
        memory=memory,
        watermark=float(rng.choice([0.0, 0.0, 0.1, 0.35])),
        max_model_len=None if rng.random() < 0.7 else int(rng.integers(2, 80)),
        max_wait_ns=int(rng.choice([0, 0, 3, 50])) * scale * grid,
        cost=cost,
    )
    return [(int(a), int(p), int(o)) for a, p, o in zip(arrivals, prompts, outputs, strict=True)], world


def force_tie(rng: np.random.Generator, requests: Requests, name: str, world: World) -> Requests:
    """The same requests, but one of them now arrives exactly as an iteration ends.

    The others' run says when iterations end; what happens until then does not depend on the one moved there.
    """
    moved = int(rng.integers(len(requests)))
    others = requests[:moved] + requests[moved + 1 :]
    ends = [i["start"] + i["duration"] for i in run_oracle(others, name, world)["iterations"]]
    if not ends:
        return requests
    return sorted([*others, (int(rng.choice(ends)), *requests[moved][1:])], key=lambda request: request[0])


def make_policy(name: str, world: World) -> Any:
    """The package's policy with the world's limits; only the parameters it declares are given."""
    cls = SkipAhead if name == "skip_ahead" else POLICIES.get(name)
    parameters: dict[str, Any] = {"max_batch_size": world.max_batch_size}
    if name == "stall_free":
        parameters["token_budget"] = world.token_budget
    if name == "static":
        parameters["max_wait_s"] = world.max_wait_ns / NS_PER_S
    return cls(**parameters)


def run_package(requests: Requests, name: str, world: World, mode: str) -> RunRecord:
    """The package's run of `requests`, which must be in arrival order as traces are."""
    columns = np.array(requests, dtype=np.int64).reshape(-1, 3)
    trace = Trace("random", columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy())
    settings = EngineSettings(
        num_blocks=world.num_blocks,
        block_size=world.block_size,
        memory=world.memory,
        watermark=world.watermark,
        max_model_len=world.max_model_len,
        mode=mode,
        token_times=True,
    )
    return simulate_package(trace, make_policy(name, world), world.cost, settings)


def run_oracle(requests: Requests, name: str, world: World) -> dict[str, Any]:
    fields = asdict(world) | {"cost": world.cost}
    return simulate_oracle(requests, name, **fields)


def summary_of_package(record: RunRecord) -> dict[str, Any]:
    """What the two must agree on, from a RunRecord."""
    times = record.token_times or {}
    rows = range(len(record.trace))
    scheduled = [None if t == UNSET_NS else int(t) for t in record.first_scheduled_ns]
    return {
        "token_times": [[int(t) for t in times.get(row, [])] for row in rows],
        "rejected": {row for row in rows if record.status[row] == REJECTED},
        "preemptions": [int(n) for n in record.num_preemptions],
        "first_scheduled": scheduled,
        "peak_blocks": int(record.kv_peak_blocks),
    }


def differences(requests: Requests, name: str, world: World, mode: str) -> list[str]:
    """One line for each field in which the package's run is not the oracle's; empty when they agree."""
    expected = run_oracle(requests, name, world)
    record = run_package(requests, name, world, mode)
    found = summary_of_package(record)
    lines = [
        f"{key}: oracle {expected[key]}, package {found[key]}" for key in found if found[key] != expected[key]
    ]
    if mode == "reference" and name != "static":  # padding is counted apart from the real work
        lines += iteration_differences(expected["iterations"], record)
    return lines


def iteration_differences(expected: list[dict[str, Any]], record: RunRecord) -> list[str]:
    """The first iteration whose row differs, as one line; empty when none does."""
    columns = ("start_ns", "duration_ns", "num_decodes", "num_prefills", "prefill_tokens", "context_tokens",
               "kv_blocks_used", "waiting")
    indices = [ITERATION_COLUMNS.index(column) for column in columns]
    found = [tuple(int(row[i]) for i in indices) for row in record.iterations]
    wanted = [
        (i["start"], i["duration"], i["decodes"], len(i["chunks"]), sum(c for c, _ in i["chunks"]),
         i["context"], i["used"], len(i["waiting"]))
        for i in expected
    ]
    if found == wanted:
        return []
    at = next((n for n, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        return [f"{len(wanted)} iterations in the oracle, {len(found)} in the package"]
    return [f"iteration {at} {columns}: oracle {wanted[at]}, package {found[at]}"]
