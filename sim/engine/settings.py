"""EngineSettings: everything a simulation needs to know beside trace, policy and cost model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.engine.ordering import Ordering


@dataclass(frozen=True)
class EngineSettings:
    """One replica's limits and the engine's own switches.

    `num_blocks` None is unlimited KV. `mode` reference computes every iteration and every request
    by itself; fast jumps over steady decode iterations and keeps aggregates; their results are
    equal. `token_times` keeps every token's time (memory O(tokens)). `progress(done, total)` is
    called now and then with finished and all requests.
    """

    num_blocks: int | None = None
    block_size: int = 16
    memory: str = "paged"
    watermark: float = 0.0
    """Share of the blocks that an admission under `paged` must leave free, unless nothing is running."""
    prefix_caching: bool = False
    """Keep full blocks findable by their prefix hashes, and a preempted request's own (sim.kv.prefix)."""
    max_model_len: int | None = None
    mode: str = "fast"
    seed: int = 0
    oracle: bool = False
    record_iterations: bool = True
    token_times: bool = False
    record_events: bool = False
    """Keep what sim.report.explain needs (sim.core.events); O(iterations + chunks + requests)."""
    ordering: Ordering = field(default_factory=Ordering)
    """Which waiting request is next."""
    victim: str = "last_admitted"
    """Which running request a preemption takes: a name of victims.VICTIMS."""
    swap_ns_per_block: int | None = None
    """Preempt by swapping KV to host memory at this speed; None recomputes it."""
    async_scheduling: bool = False
    """Plan each iteration while the one before runs: arrivals and freed slots and blocks count one late."""
    closed_loop: int | None = None
    """Requests kept in flight, each completion releasing the next; None replays arrival times."""
    front_end_ns: int = 0
    """From a request's arrival at the API to the scheduler's seeing it; part of its TTFT."""
    steady_window_ns: tuple[int, int] | None = None
    policy_timeout_s: float | None = 20.0
    """Real seconds after which one call of the policy counts as a loop; None never."""
    progress: Callable[[int, int], None] | None = None
