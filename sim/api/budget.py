"""`token_budget: auto` in a config, resolved to a number once the inputs are there."""

from __future__ import annotations

import numpy as np

from sim.api.inputs import Inputs
from sim.config import Config
from sim.core.units import seconds_to_ns
from sim.engine.budget import largest_budget

AUTO = "auto"


def with_resolved_budget(config: Config, inputs: Inputs) -> Config:
    """`config` with the largest budget whose worst iteration keeps slo.tbt_s in place of `auto`.

    The worst iteration is one over the longest requests of the trace that may run, as many as have
    slots and fit the KV cache. ConfigError without slo.tbt_s, or if no budget keeps it.
    """
    parameters, key = config.policy.parameters, "policy.token_budget"
    if parameters.get("token_budget") != AUTO:
        return config
    if config.slo.tbt_s is None:
        raise config.source.error(key, "auto needs slo.tbt_s")
    slots = parameters["max_batch_size"]
    requests = np.sort(inputs.trace.prompt_tokens + inputs.trace.output_tokens)
    if config.replica.max_model_len is not None:
        requests = requests[requests <= config.replica.max_model_len]
    if not len(requests):
        raise config.source.error(key, "auto needs a request that fits replica.max_model_len")
    held = int(requests[-slots:].sum())
    if inputs.num_blocks is not None:
        held = min(held, inputs.num_blocks * config.kv_cache.block_size)
    limit_ns = seconds_to_ns(config.slo.tbt_s)
    budget = largest_budget(inputs.cost, limit_ns, slots, int(requests[-1]), held)
    if budget is None:
        raise config.source.error(
            key,
            f"auto found none that keeps slo.tbt_s {config.slo.tbt_s:g} with {slots} requests of up to "
            f"{requests[-1]} tokens; lower policy.max_batch_size or raise the objective",
        )
    return config.updated(policy=config.policy.updated(token_budget=budget))


def budget_notices(asked: Config, resolved: Config, label: str) -> list[str]:
    """What `auto` came to, and that all slots cannot decode at once if so; [] where it was not asked."""
    if asked.policy.parameters.get("token_budget") != AUTO:
        return []
    budget, slots = (resolved.policy.parameters[key] for key in ("token_budget", "max_batch_size"))
    notices = [f"{label}: token_budget auto came to {budget}"]
    if budget < slots:
        notices.append(
            f"{label}: token_budget {budget} is below max_batch_size {slots}: when more requests than that "
            "decode, they take turns, and no prompt is processed"
        )
    return notices
