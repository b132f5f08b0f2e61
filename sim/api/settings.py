"""EngineSettings from a config: the limits of the replica, order and victims, and the engine's switches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sim.api.inputs import Inputs, catalogued
from sim.config import Config
from sim.core.errors import suggestion
from sim.core.units import NS_PER_S, seconds_to_ns
from sim.cost import load_model
from sim.engine import EngineSettings
from sim.engine.ordering import ORDERS, Ordering
from sim.engine.victims import VICTIMS

Progress = Callable[[int, int], None]
"""Called now and then with requests finished and requests in all."""


def engine_settings(config: Config, inputs: Inputs, progress: Progress | None) -> EngineSettings:
    """The engine's settings as `config` gives them; ConfigError for a name that is not known."""
    cache, loop = config.kv_cache, config.trace.closed_loop
    check_settings(config)
    return EngineSettings(
        num_blocks=inputs.num_blocks,
        block_size=cache.block_size,
        memory=cache.memory,
        watermark=cache.watermark,
        prefix_caching=cache.prefix_caching,
        max_model_len=config.replica.max_model_len,
        async_scheduling=config.replica.async_scheduling,
        front_end_ns=seconds_to_ns(config.replica.front_end_delay_s),
        mode=config.engine.mode,
        seed=config.seed,
        oracle=config.policy.oracle,
        record_iterations=config.engine.record_iterations,
        token_times=config.engine.token_times,
        ordering=_ordering(config),
        victim=cache.victim,
        swap_ns_per_block=_swap_ns_per_block(config),
        steady_window_ns=_steady_window_ns(config),
        closed_loop=None if loop is None else loop.concurrency,
        policy_timeout_s=config.engine.policy_timeout_s,
        progress=progress,
    )


def _steady_window_ns(config: Config) -> tuple[int, int] | None:
    """The stated window; None is the middle of the arrivals, which a closed loop does not know before."""
    stated = config.output.steady_window_s
    if stated is not None:
        return seconds_to_ns(stated[0]), seconds_to_ns(stated[1])
    return None if config.trace.closed_loop is None else (0, 0)


def check_settings(config: Config) -> None:
    """Raise ConfigError for the name of an order or a victim rule that the engine does not have."""
    _known(config, "kv_cache.victim", config.kv_cache.victim, VICTIMS)
    _known(config, "policy.order", config.policy.order, ORDERS)


def objectives(config: Config) -> tuple[dict[str, float | None], dict[str, dict[str, float | None]]]:
    """Every request's SLO, and those of SLO classes, in seconds."""
    everyone = config.slo.model_dump(exclude={"classes"})
    return everyone, {name: limits.model_dump() for name, limits in config.slo.classes.items()}


def _ordering(config: Config) -> Ordering:
    policy = config.policy
    everyone, classes = objectives(config)
    limits: dict[str | None, float | None] = {name: limit["ttft_s"] for name, limit in classes.items()}
    limits[None] = everyone["ttft_s"]
    return Ordering(
        name=policy.order,
        aging_ns=None if policy.aging_s is None else seconds_to_ns(policy.aging_s),
        prediction_noise=policy.prediction_noise,
        ttft_slo_ns={name: seconds_to_ns(limit) for name, limit in limits.items() if limit is not None},
        oracle=policy.oracle,
        seed=config.seed,
    )


def _swap_ns_per_block(config: Config) -> int | None:
    """Time to move one KV block of one rank between GPU and host; None where nothing is swapped."""
    cache = config.kv_cache
    if cache.swap_bandwidth_gb_s is None:
        return None
    model = catalogued(config, "model", load_model, "kv_cache.preemption", "swap")
    block_bytes = cache.block_size * model.kv_bytes_per_token(config.replica.tensor_parallel)
    return max(1, round(block_bytes / (cache.swap_bandwidth_gb_s * 1e9) * NS_PER_S))


def _known(config: Config, key: str, name: str, allowed: Iterable[str]) -> None:
    if name not in allowed:
        raise config.source.error(key, f"unknown value {name!r}: {suggestion(name, allowed)}")
