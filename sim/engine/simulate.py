"""simulate: one trace, one policy, one cost model, one replica; from the parts to a RunRecord."""

from __future__ import annotations

import time

from sim.core.errors import ConfigError, SimError
from sim.core.protocols import CostModel, Policy
from sim.core.record import RunRecord
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.engine.arrivals import Arrivals
from sim.engine.clock import Clock
from sim.engine.decodes import Decodes, PlainDecodes
from sim.engine.epochs import EpochDecodes
from sim.engine.events import EventRecorder, EventStep
from sim.engine.extent import stays_inside
from sim.engine.ordering import ORDERS
from sim.engine.pace import Pace
from sim.engine.recorder import Recorder
from sim.engine.replica import Replica
from sim.engine.settings import EngineSettings
from sim.engine.state import ReplicaState
from sim.engine.step import Step
from sim.engine.tokens import TokenLog
from sim.engine.victims import VICTIMS
from sim.engine.watchdog import watched
from sim.kv import MEMORY_RULES, BlockLedger, PrefixCache


def simulate(
    trace: Trace, policy: Policy, cost: CostModel, settings: EngineSettings
) -> RunRecord:
    """Serve `trace` to its end and return what happened.

    Raises PolicyError (naming the iteration) if the policy breaks a rule, StalledError if it makes
    no progress, ConfigError if policy and settings exclude each other. A KeyboardInterrupt returns
    the run so far, with a notice that says so.
    """
    _check_plans_ahead(policy, settings)
    started = time.perf_counter()
    env = Clock()
    recorder = _recorder(trace, cost, settings, env)
    tokens = TokenLog() if settings.token_times else None
    arrivals = Arrivals(env, trace, settings.closed_loop, settings.front_end_ns)
    kv = _kv_cache(trace, policy, settings)
    state = _replica_state(kv, policy, cost, settings, recorder, tokens)
    notices = [*trace.notices, *_prepare(policy, trace)]
    step = _step(state, policy, settings, recorder)
    inside = stays_inside(cost, policy, trace)
    pace = Pace(cost, policy, settings, state, step, arrivals, recorder, inside)
    replica = Replica(env, arrivals, policy, pace, settings, state, step, recorder, tokens)
    env.process(arrivals.process())
    env.process(replica.serve())
    try:
        with watched(replica, settings.policy_timeout_s):
            env.run()
    except KeyboardInterrupt:
        notices.append(f"interrupted at {env.now / 1e9:.3f} s of simulated time")
        for request in replica.unfinished():
            recorder.progressed(request)
    else:
        _check_ended_clean(state)
    counters = {
        "events": env.num_events,
        "policy_calls": replica.policy_calls,
        "cost_calls": recorder.num_rows + pace.later_calls,
        "swapped_blocks": pace.swapped_blocks,
    }
    record = recorder.result(kv, tokens, counters)
    record.extrapolated_iterations = pace.extrapolated_iterations
    record.notices = notices + _extrapolation_notice(record)
    record.wall_s = time.perf_counter() - started
    return record


def _check_plans_ahead(policy: Policy, settings: EngineSettings) -> None:
    if settings.async_scheduling and hasattr(policy, "on_tokens"):
        name = getattr(policy, "name", type(policy).__name__)
        raise ConfigError(
            f"replica.async_scheduling: true is not possible with policy {name!r}, which reads the "
            "tokens of each iteration before it plans the next"
        )


def _extrapolation_notice(record: RunRecord) -> list[str]:
    if not record.extrapolated_iterations:
        return []
    share = record.extrapolated_iterations / record.num_iterations
    return [f"{share:.1%} of the iterations lie outside the range the cost model was measured on"]


def _prepare(policy: Policy, trace: Trace) -> list[str]:
    """Let a policy that must know the longest prompt adapt to it; what it says of that."""
    prepare = getattr(policy, "prepare", None)
    notice = None if prepare is None else prepare(int(trace.prompt_tokens.max()))
    return [] if notice is None else [notice]


def _replica_state(
    kv: BlockLedger,
    policy: Policy,
    cost: CostModel,
    settings: EngineSettings,
    recorder: Recorder,
    tokens: TokenLog | None,
) -> ReplicaState:
    memory = MEMORY_RULES.get(getattr(policy, "memory", None) or settings.memory)()
    pool = EpochDecodes if settings.mode == "fast" else PlainDecodes
    spread = bool(getattr(cost, "needs_context_spread", True))
    decodes: Decodes = pool(settings.block_size, recorder.gaps, tokens, spread)
    by_chunk = memory.grows and bool(getattr(policy, "blocks_by_chunk", False))
    waiting = ORDERS.get(settings.ordering.name)(settings.ordering)
    swaps = settings.swap_ns_per_block is not None
    return ReplicaState(kv, memory, decodes, waiting, by_chunk, swaps)


def _recorder(trace: Trace, cost: CostModel, settings: EngineSettings, clock: Clock) -> Recorder:
    window_ns, rows = _steady_window(trace, settings), settings.record_iterations
    if settings.record_events:
        return EventRecorder(trace, window_ns, rows, clock, cost, settings.front_end_ns)
    return Recorder(trace, window_ns, rows)


def _step(state: ReplicaState, policy: Policy, settings: EngineSettings, recorder: Recorder) -> Step:
    of_policy_and_replica = (
        state,
        getattr(policy, "token_budget", None),
        getattr(policy, "max_batch_size", None),
        int(settings.watermark * (settings.num_blocks or 0)) if state.memory.grows else 0,
        stream(settings.seed, "policy"),
        VICTIMS.get(settings.victim),
    )
    if isinstance(recorder, EventRecorder):
        return EventStep(recorder, *of_policy_and_replica)
    return Step(*of_policy_and_replica)


def _kv_cache(trace: Trace, policy: Policy, settings: EngineSettings) -> BlockLedger:
    num_blocks = None if getattr(policy, "unlimited_kv", False) else settings.num_blocks
    if settings.prefix_caching:
        in_flight = int(settings.async_scheduling)
        return PrefixCache(num_blocks, settings.block_size, trace.hash_block_tokens, in_flight)
    return BlockLedger(num_blocks, settings.block_size)


def _steady_window(trace: Trace, settings: EngineSettings) -> tuple[int, int]:
    """[start, end) of the steady window: by default the middle half of the arrival span."""
    if settings.steady_window_ns is not None:
        return settings.steady_window_ns
    first, last = int(trace.arrival_ns[0]), int(trace.arrival_ns[-1])
    quarter = (last - first) // 4
    return first + quarter, last - quarter


def _check_ended_clean(state: ReplicaState) -> None:
    if state.kv.used_blocks or state.running or state.waiting:
        raise SimError(
            f"the run ended with {state.kv.used_blocks} KV blocks in use, "
            f"{len(state.running)} running and {len(state.waiting)} waiting requests"
        )
    state.kv.check()
