"""attainment: SLO attainment and goodput of policies over a grid of arrival rates, and the best rate.

Owns the grid. Rates and traces at a rate are bench.py's; what meets an SLO is sim.report.objectives'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.api.bench import Bench, own_rate_per_s
from sim.api.bounding import sustainable_rate
from sim.api.comparison import PolicySpec, line_up
from sim.api.inputs import build_inputs
from sim.api.load import ConfigLike, as_config

if TYPE_CHECKING:
    import pandas as pd

GRID_OF_BOUND = tuple(np.linspace(0.1, 1.2, 12).round(2).tolist())
"""Default rates, as multiples of the rate that no policy can sustain."""
REFINEMENTS = 2
"""Times the grid is halved around the rate with most goodput."""
NEARLY = 0.99
"""Share of the highest goodput that still counts as it, when naming the range of good rates."""

METRICS = (
    "slo_attainment", "goodput", "throughput.requests_per_s", "throughput.output_tokens_per_s",
    "ttft_s.p50", "ttft_s.p99", "tbt_s.p99", "queue_s.p50",
)  # fmt: skip


def attainment(
    config: ConfigLike,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    rates: Sequence[float] | None = None,
    seeds: int | None = None,
    *,
    on_point: Callable[[dict[str, Any]], None] | None = None,
) -> pd.DataFrame:
    """Each policy at each of `rates` (requests a second): SLO attainment, goodput and latencies.

    One row a policy, seed and rate, with the columns METRICS. Rates default to a grid up to beyond
    what any policy can sustain. Between the rates next to the one with most goodput further ones are
    added, so that `best_goodput` is found finer than the grid. Needs an `slo`; arrivals are those of
    `capacity`. `on_point` is called with each row.
    """
    import pandas as pd

    config = as_config(config)
    everyone = config.slo.model_dump(exclude={"classes"}).values()
    if all(limit is None for limit in everyone) and not config.slo.classes:
        raise config.source.error("slo", "is needed: without an objective there is nothing to attain")
    if config.trace.closed_loop is not None:
        raise config.source.error("trace.closed_loop", "a closed loop has no arrival rate to vary")
    contenders = line_up(config, policies, seeds)
    first_of_seed = {c.seed: c.config for c in reversed(contenders)}
    inputs = {seed: build_inputs(of_seed) for seed, of_seed in first_of_seed.items()}
    if rates is None:
        first = inputs[config.seed]
        bound = sustainable_rate([c.config for c in contenders if c.seed == config.seed], first)
        usual = bound or own_rate_per_s(first.trace) or 1.0
        rates = [float(f"{share * usual:.3g}") for share in GRID_OF_BOUND]
    rows: list[dict[str, Any]] = []
    for label in dict.fromkeys(contender.label for contender in contenders):
        benches = [Bench(c, inputs[c.seed]) for c in contenders if c.label == label]
        rows += _curve(benches, rates, on_point)
    return pd.DataFrame(rows)


def best_goodput(frame: pd.DataFrame) -> pd.DataFrame:
    """The rate with most goodput of each policy, in the mean over its seeds.

    Columns: policy, rate_per_s, goodput, slo_attainment, and from_per_s and to_per_s: the rates at
    which goodput is within 1 % of it.
    """
    import pandas as pd

    rows = []
    for policy, group in frame.groupby("policy", sort=False):
        curve = group.groupby("rate_per_s")[["goodput", "slo_attainment"]].mean()
        rates, goodput = curve.index.to_numpy(), curve["goodput"].to_numpy()
        best = int(goodput.argmax())
        near = rates[goodput >= NEARLY * goodput[best]]
        attained = float(curve["slo_attainment"].to_numpy()[best])
        rows.append((policy, float(rates[best]), float(goodput[best]), attained, near.min(), near.max()))
    columns = ["policy", "rate_per_s", "goodput", "slo_attainment", "from_per_s", "to_per_s"]
    return pd.DataFrame(rows, columns=columns)


def _curve(
    benches: Sequence[Bench], rates: Sequence[float], on_point: Callable[[dict[str, Any]], None] | None
) -> list[dict[str, Any]]:
    """The rows of one policy, by rate, then seed; the grid is made finer around the best mean goodput."""
    found: dict[float, list[dict[str, Any]]] = {}

    def measure(rate: float) -> None:
        found[rate] = []
        for bench in benches:
            _, summary = bench.run(rate)
            numbers = {name: bench.metric(summary, name) for name in METRICS}
            who = {"policy": bench.contender.label, "seed": bench.contender.seed, "rate_per_s": rate}
            found[rate].append(who | numbers)
            if on_point is not None:
                on_point(found[rate][-1])

    for rate in rates:
        measure(float(rate))
    for _ in range(REFINEMENTS):
        for rate in _around_best(found):
            measure(rate)
    return [row for rate in sorted(found) for row in found[rate]]


def _around_best(found: dict[float, list[dict[str, Any]]]) -> list[float]:
    """The middles between the rate with most goodput and its neighbours."""
    known = sorted(found)
    best = max(known, key=lambda rate: sum(row["goodput"] or 0.0 for row in found[rate]))
    place = known.index(best)
    beside = known[max(place - 1, 0) : place] + known[place + 1 : place + 2]
    middles = [float(f"{(best + neighbour) / 2:.4g}") for neighbour in beside]
    return [rate for rate in middles if rate not in found]
