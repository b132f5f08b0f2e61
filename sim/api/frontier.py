"""frontier: throughput against latency as a policy's token budget and batch size change; the Pareto sets.

Owns the variants of a policy and which of them no other variant beats. A grid over any keys is sweep's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sim.api.bench import Bench
from sim.api.bounding import common_bounds, sustainable_rate
from sim.api.comparison import Contender, PolicySpec, line_up
from sim.api.inputs import Inputs, build_inputs
from sim.api.load import ConfigLike, as_config, complete_policy
from sim.api.policies import declared_parameters, policy_class
from sim.config import Config
from sim.config.parse import parse_policy
from sim.report.bounds import NoBounds

if TYPE_CHECKING:
    import pandas as pd

TOKEN_BUDGETS = (128, 256, 512, 1024, 2048, 4096, 8192)
THROUGHPUT = "throughput.output_tokens_per_s"
LATENCIES = ("tbt_s.p99", "ttft_s.p50", "ttft_s.p99")
"""Each has a frontier of its own."""
OTHERS = ("tbt_s.max", "e2e_s.p50", "goodput", "slo_attainment", "makespan_s")


def frontier(
    config: ConfigLike,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    *,
    token_budgets: Sequence[int] = TOKEN_BUDGETS,
    max_batch_sizes: Sequence[int] | None = None,
    rate_per_s: float | Literal["own"] | None = None,
    on_point: Callable[[Mapping[str, Any]], None] | None = None,
) -> pd.DataFrame:
    """Each policy at every token budget and batch size that it takes, over the same trace.

    One row a variant: policy, token_budget, max_batch_size (None where the policy has none), output
    token throughput, latencies, and for each of LATENCIES `on_frontier.<latency>`: no variant of any
    policy has both more throughput and less of it. Requests arrive at `rate_per_s`, by the arrivals
    of `capacity`: by default the rate that no policy can sustain (docs/bounds.md), so that
    throughput tells variants apart; "own" leaves the trace's arrivals as they are. Batch sizes
    default to the config's. `bound` is the throughput that none can have on these arrivals;
    `frame.attrs["rate_per_s"]` is the rate, None for "own".
    """
    import pandas as pd

    contenders = list(_variants(as_config(config), policies, token_budgets, max_batch_sizes))
    inputs = build_inputs(contenders[0][1].config)
    configs = [contender.config for _, contender in contenders]
    rate = None if rate_per_s == "own" else rate_per_s or sustainable_rate(configs, inputs)
    if rate is not None:
        inputs = replace(inputs, trace=Bench(contenders[0][1], inputs).at(rate))
    bound = _throughput_bound(configs, inputs)
    rows: list[dict[str, Any]] = []
    for knobs, contender in contenders:
        bench = Bench(contender, inputs)
        _, summary = bench.run(None)
        numbers = {name: bench.metric(summary, name) for name in (THROUGHPUT, *LATENCIES, *OTHERS)}
        rows.append({"policy": contender.label, **knobs, **numbers, "bound": bound})
        if on_point is not None:
            on_point(rows[-1])
    frame = pd.DataFrame(rows)
    for latency in LATENCIES:
        frame[f"on_frontier.{latency}"] = undominated(
            frame[THROUGHPUT].to_numpy(dtype=np.float64), frame[latency].to_numpy(dtype=np.float64)
        )
    frame.attrs["rate_per_s"] = rate
    return frame


def undominated(more: NDArray[np.float64], less: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points no other has at least as much of `more` and at most as much of `less` than, one strictly.

    A point without one of the two (NaN) is not among them.
    """
    known = ~(np.isnan(more) | np.isnan(less))
    at_least = (more[:, None] >= more) & (less[:, None] <= less)
    strictly = (more[:, None] > more) | (less[:, None] < less)
    beaten = (at_least & strictly & known[:, None]).any(axis=0)
    return known & ~beaten


def _throughput_bound(configs: Sequence[Config], inputs: Inputs) -> float | None:
    try:
        return float(common_bounds(configs, inputs)["throughput"]["output_tokens_per_s"])
    except NoBounds:
        return None


def _variants(
    config: Config,
    policies: PolicySpec | Sequence[PolicySpec] | None,
    token_budgets: Sequence[int],
    max_batch_sizes: Sequence[int] | None,
) -> Iterator[tuple[dict[str, int | None], Contender]]:
    """Every policy with every value of the knobs that it has."""
    for contender in line_up(config, policies, seeds=1):
        section = contender.config.policy
        names = _parameters(contender.config)
        budgets: Sequence[int | None] = token_budgets if "token_budget" in names else [None]
        sizes: Sequence[int | None] = [None]
        if "max_batch_size" in names:
            sizes = max_batch_sizes or [section.parameters["max_batch_size"]]
        for budget in budgets:
            for size in sizes:
                knobs = {"token_budget": budget, "max_batch_size": size}
                given = {key: value for key, value in knobs.items() if value is not None}
                yield knobs, _with(contender, given)


def _parameters(config: Config) -> set[str]:
    section = config.policy
    cls = policy_class(config.source, section.name, section.path)
    return {field.name for field in fields(declared_parameters(cls))}


def _with(contender: Contender, knobs: Mapping[str, int]) -> Contender:
    """`contender` with other parameters, checked as those of a config are."""
    config = contender.config
    given = {**config.policy.model_dump(), **knobs}
    policy = complete_policy(parse_policy(given, config.source, "policy"), config.source)
    return Contender(contender.label, contender.seed, config.updated(policy=policy))
