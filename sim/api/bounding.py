"""bounds: what no policy can beat, for a config or for all the policies of a comparison alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.api.inputs import Inputs, build_inputs
from sim.api.load import ConfigLike, as_config
from sim.api.policies import make_policy
from sim.api.settings import engine_settings, objectives
from sim.config import Config
from sim.report.bounds import Limits, NoBounds, bounds_of


def bounds(config: ConfigLike) -> dict[str, Any]:
    """What no policy can beat on the trace, limits and cost model of `config` (docs/bounds.md).

    A summary with the keys that are bounded: latencies and makespan from below; throughput, goodput
    and slo_attainment from above; and `sustainable_requests_per_s`, the rate of such requests above
    which every queue grows for ever. NoBounds (a UserError) where the cost model allows none.
    """
    config = as_config(config)
    return common_bounds([config], build_inputs(config))


def common_bounds(configs: Sequence[Config], inputs: Inputs) -> dict[str, Any]:
    """`bounds` that hold for the policies of all `configs`, which share `inputs`."""
    slo, slo_classes = objectives(configs[0])
    found = bounds_of(inputs.trace, inputs.cost, common_limits(configs, inputs))
    return found.figures(inputs.trace, slo, slo_classes)


def sustainable_rate(configs: Sequence[Config], inputs: Inputs) -> float | None:
    """Requests a second above which every policy's queue grows for ever; None where there are no bounds."""
    try:
        return float(common_bounds(configs, inputs)["sustainable_requests_per_s"])
    except NoBounds:
        return None


def common_limits(configs: Sequence[Config], inputs: Inputs) -> Limits:
    """The loosest limits among `configs`: what binds one policy only is part of that policy."""
    settings = engine_settings(configs[0], inputs, None)
    policies = [make_policy(config) for config in configs]
    batches: list[int | None] = [getattr(policy, "max_batch_size", None) for policy in policies]
    known = [size for size in batches if size is not None]
    unlimited = any(getattr(policy, "unlimited_kv", False) for policy in policies)
    return Limits(
        max_batch_size=max(known) if len(known) == len(batches) else None,
        num_blocks=None if unlimited else settings.num_blocks,
        block_size=settings.block_size,
        max_model_len=settings.max_model_len,
        prefix_caching=settings.prefix_caching,
        closed_loop=settings.closed_loop,
        front_end_ns=settings.front_end_ns,
    )
