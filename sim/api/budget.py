"""`token_budget: auto`: the largest budget whose worst iteration keeps the TBT objective."""

from __future__ import annotations

from bisect import bisect_right

from sim.api.inputs import Inputs
from sim.config import Config
from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel
from sim.core.units import ns_to_seconds, seconds_to_ns


def with_budget(config: Config, inputs: Inputs) -> Config:
    """`config` with `token_budget: auto` replaced by a number; itself where it is one already.

    ConfigError if there is no slo.tbt_s, or no budget keeps it.
    """
    parameters = config.policy.parameters
    if parameters.get("token_budget") != "auto":
        return config
    if config.slo.tbt_s is None:
        raise config.source.error("policy.token_budget", "auto needs slo.tbt_s")
    worst = WorstIteration(inputs, config.kv_cache.block_size, config.replica.max_model_len, parameters)
    budgets = range(1, worst.most_tokens + 1)
    kept = bisect_right(budgets, seconds_to_ns(config.slo.tbt_s), key=worst.duration_ns)
    if kept == 0:
        raise config.source.error(
            "policy.token_budget",
            f"auto finds none that keeps slo.tbt_s {config.slo.tbt_s:g}: the worst iteration takes "
            f"{ns_to_seconds(worst.duration_ns(1)):.3g} s with a budget of 1; "
            "a smaller max_batch_size or max_model_len makes it shorter",
        )
    return config.updated(policy=config.policy.updated(token_budget=budgets[kept - 1]))
