"""Random small worlds for the tests: an integer cost model, traces, policies and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import policies  # noqa: F401  (registers the policies)
from sim.core.batch import Batch
from sim.core.record import RunRecord
from sim.core.registry import POLICIES
from sim.core.trace import Trace
from sim.engine import EngineSettings, simulate

STANDARD = ("continuous", "prefill_first", "stall_free", "static", "vllm_v1")


@dataclass(frozen=True)
class LinearCost:
    """Integer nanoseconds, linear in everything a batch has; so timelines can be done by hand."""

    base: int = 0
    per_decode: int = 0
    per_context: int = 0
    per_prefill_token: int = 0
    per_pair: int = 0
    per_longest: int = 0

    def iteration_ns(self, batch: Batch) -> int:
        return max(
            1,
            self.base
            + self.per_decode * batch.num_decodes
            + self.per_context * batch.decode_context_sum
            + self.per_longest * batch.decode_context_max
            + sum(
                self.per_prefill_token * chunk.tokens + self.per_pair * chunk.attention_pairs
                for chunk in batch.chunks
            ),
        )

    def decode_run_ns(self, batch: Batch, iterations: int) -> np.ndarray:
        return np.array([self.iteration_ns(batch.after(i)) for i in range(iterations)], dtype=np.int64)


def make_trace(rows: Sequence[tuple[int, int, int]], **columns: Any) -> Trace:
    """A trace of (arrival_ns, prompt_tokens, output_tokens) rows."""
    arrival, prompt, output = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return Trace("test", arrival, prompt, output, **columns)


def serve(
    rows: Sequence[tuple[int, int, int]] | Trace,
    policy: str | Any,
    cost: Any,
    params: dict[str, Any] | None = None,
    **settings: Any,
) -> RunRecord:
    """Simulate with every token's time kept. `policy` is a registered name or a policy object."""
    trace = rows if isinstance(rows, Trace) else make_trace(rows)
    made = POLICIES.get(policy)(**(params or {})) if isinstance(policy, str) else policy
    return simulate(trace, made, cost, EngineSettings(token_times=True, **settings))


@dataclass(frozen=True)
class World:
    """Everything one random run needs."""

    trace: Trace
    policy: str
    params: dict[str, Any]
    cost: LinearCost
    num_blocks: int
    block_size: int
    memory: str
    watermark: float
    prefix_caching: bool = False
    async_scheduling: bool = False

    def serve(self, mode: str = "fast", **settings: Any) -> RunRecord:
        return serve(
            self.trace,
            self.policy,
            self.cost,
            self.params,
            mode=mode,
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            memory=self.memory,
            watermark=self.watermark,
            **{
                "prefix_caching": self.prefix_caching,
                "async_scheduling": self.async_scheduling,
                **settings,
            },
        )


COARSE_COSTS = st.sampled_from([LinearCost(base=5), LinearCost(base=5, per_prefill_token=5)])
FINE_COSTS = st.builds(
    LinearCost, *[st.integers(1, 30)] * 2, st.integers(0, 3), *[st.integers(0, 30)] * 3
)


@st.composite
def traces(draw: st.DrawFn, arrivals: st.SearchStrategy[int]) -> Trace:
    lengths = st.tuples(arrivals, st.integers(1, 24), st.integers(1, 30))
    rows = sorted(draw(st.lists(lengths, min_size=1, max_size=10)), key=lambda row: row[0])
    return make_trace([(arrival - rows[0][0], prompt, output) for arrival, prompt, output in rows])


@st.composite
def with_prefixes(draw: st.DrawFn, trace: Trace) -> Trace:
    """The same requests with chained hashes over the prompt, or over prompt and output.

    A prompt is a path down a small tree, so that many share their beginnings; a node is a hash.
    """
    size = draw(st.integers(1, 4))
    nodes: dict[tuple[int, ...], int] = {}
    hashes = []
    for prompt, output in zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True):
        covered = draw(st.sampled_from([prompt, prompt, prompt + output, prompt // 2]))
        turns = draw(st.lists(st.sampled_from([0, 0, 0, 1]), max_size=4))
        path = (turns + [0] * covered)[: -(-covered // size)]
        hashes.append(tuple(
            nodes.setdefault(tuple(path[: k + 1]), len(nodes)) for k in range(len(path))
        ))  # fmt: skip
    return dataclasses.replace(trace, prefix_hashes=hashes, hash_block_tokens=size)


@st.composite
def worlds(draw: st.DrawFn, policy_names: Sequence[str] = STANDARD) -> World:
    """A random world; in half of them times are coarse, so that arrivals and iteration ends tie."""
    coarse = draw(st.booleans())
    arrivals = st.integers(0, 30).map(lambda k: 5 * k) if coarse else st.integers(0, 3000)
    policy = draw(st.sampled_from(policy_names))
    params = {"max_batch_size": draw(st.integers(1, 6))}
    if policy in ("stall_free", "vllm_v1"):
        params["token_budget"] = draw(st.integers(1, 12))
    if policy == "vllm_v1":
        params["long_prefill_token_threshold"] = draw(st.sampled_from([0, 0, 1, 3]))
    if policy == "static":
        params["max_wait_s"] = draw(st.sampled_from([0.0, 4e-8]))
    trace = draw(traces(arrivals))
    prefix_caching = draw(st.booleans())
    return World(
        trace=draw(with_prefixes(trace)) if prefix_caching else trace,
        prefix_caching=prefix_caching,
        async_scheduling=draw(st.sampled_from([False, False, True])),
        policy=policy,
        params=params,
        cost=draw(COARSE_COSTS if coarse else FINE_COSTS),
        num_blocks=draw(st.integers(3, 40)),
        block_size=draw(st.integers(1, 5)),
        memory=draw(st.sampled_from(["paged", "paged", "reserve"])),
        watermark=draw(st.sampled_from([0.0, 0.0, 0.2])),
    )
