"""capacity: the highest request rate at which a policy still meets its SLO, by bisection.

Owns what a rate is held against, the trace at a rate, and when an answer says more about the trace
than about the policy. The search itself is in bisection.py; docs/comparing.md argues the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sim.api.bench import Bench, own_rate_per_s, unsteady
from sim.api.bisection import Found, highest_passing
from sim.api.bounding import sustainable_rate
from sim.api.comparison import PolicySpec, line_up
from sim.api.inputs import build_inputs
from sim.api.load import ConfigLike, as_config
from sim.config import Config
from sim.report.limits import Limits, kept

if TYPE_CHECKING:
    import pandas as pd

QUEUE_LIMIT_S = 2.0
"""Default limit of the median scheduling delay. Source: Sarathi-Serve (OSDI 2024), section 5."""


@dataclass(frozen=True)
class Trial:
    """One policy at one rate."""

    policy: str
    seed: int
    rate_per_s: float
    passes: bool
    values: Mapping[str, float | None]
    """The limited metrics; None where there is no such value, which passes."""
    output_tokens_per_s: float | None
    unsteady: str | None
    """Why the run says little of this rate for ever; None if it does not seem so."""


@dataclass(frozen=True)
class Capacity:
    """What a search found for one policy and seed."""

    policy: str
    seed: int
    found: Found
    at_capacity: Trial | None
    bound_per_s: float | None
    """No policy can sustain more of these requests (docs/bounds.md)."""
    limits: Limits
    trials: Sequence[Trial] = field(repr=False, default=())

    @property
    def limited_by(self) -> str:
        """slo; or trace or bracket, where the search could not find the policy's own limit."""
        if self._of_the_trace():
            return "trace"
        return "bracket" if self.found.low is None or self.found.high is None else "slo"

    @property
    def note(self) -> str | None:
        """What a reader should know beside the number; None if nothing."""
        notes = []
        if self.found.low is None:
            notes.append(f"fails even at {min(self.found.tried):.4g}/s, the lowest rate tried")
        elif self.found.high is None:
            notes.append(f"passes even at {max(self.found.tried):.4g}/s, the highest rate tried")
        if self._of_the_trace():
            notes.append(f"limited by the trace: {self._of_the_trace()}")
        for rate in self.found.surprises:
            how = "passes again" if self.found.tried[rate] else "fails already"
            notes.append(f"not monotone: {how} at {rate:.4g}/s")
        return "; ".join(notes) or None

    def _of_the_trace(self) -> str | None:
        trial = self.at_capacity
        if trial is None:
            return None
        if self.bound_per_s is not None and trial.rate_per_s > self.bound_per_s:
            most = f"no policy can sustain more than {self.bound_per_s:.3g}/s"
            return f"{most}, and the trace ends before that shows"
        return trial.unsteady

    def row(self) -> dict[str, Any]:
        """The row of the capacity table."""
        values = {} if self.at_capacity is None else self.at_capacity.values
        return {
            "policy": self.policy,
            "seed": self.seed,
            "capacity_per_s": self.found.low,
            "fails_at_per_s": self.found.high,
            "bound_per_s": self.bound_per_s,
            "limited_by": self.limited_by,
            "note": self.note,
            "trials": len(self.found.tried),
            "output_tokens_per_s": None if self.at_capacity is None else self.at_capacity.output_tokens_per_s,
            **{name: values.get(name) for name in self.limits},
        }


def capacity(
    config: ConfigLike,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    seeds: int | None = None,
    *,
    limits: Limits | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> pd.DataFrame:
    """The highest request rate at which each policy meets `limits`; one row a policy and seed.

    `limits` are largest values of metrics, {"tbt_s.p99": 0.1}; by default those of config.capacity,
    and where it has none p99 TBT within slo.tbt_s and median scheduling delay within 2 s, as in
    Sarathi-Serve. The trace's requests arrive by a Poisson process (or by their own times played
    faster or slower: capacity.arrivals), the same one for every policy and, stretched, every rate.

    Columns: policy, seed, capacity_per_s (the highest rate that passed), fails_at_per_s (the lowest
    above it that failed, at most 2.5 % higher), bound_per_s (no policy sustains more), limited_by
    (slo, trace or bracket), note, trials, output_tokens_per_s and the limited metrics at that rate.
    `frame.attrs["trials"]` has a row a trial. `on_trial` is called after each.
    """
    import pandas as pd

    found = list(find_capacities(as_config(config), policies, seeds, limits=limits, on_trial=on_trial))
    frame = pd.DataFrame([capacity.row() for capacity in found])
    frame.attrs["trials"] = trials_frame(found)
    return frame


def trials_frame(found: Sequence[Capacity]) -> pd.DataFrame:
    """Every trial of `found`: policy, seed, rate_per_s, passes, the limited metrics, unsteady."""
    import pandas as pd

    return pd.DataFrame(
        {
            "policy": trial.policy,
            "seed": trial.seed,
            "rate_per_s": trial.rate_per_s,
            "passes": trial.passes,
            **trial.values,
            "output_tokens_per_s": trial.output_tokens_per_s,
            "unsteady": trial.unsteady,
        }
        for capacity in found
        for trial in sorted(capacity.trials, key=lambda trial: trial.rate_per_s)
    )


def find_capacities(
    config: Config,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    seeds: int | None = None,
    *,
    limits: Limits | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Iterator[Capacity]:
    """`capacity`, one policy and seed after another as each is found."""
    if config.trace.closed_loop is not None:
        raise config.source.error("trace.closed_loop", "a closed loop has no arrival rate to look for")
    limits = limits_of(config) if limits is None else limits
    contenders = line_up(config, policies, seeds)
    inputs, seed = None, None
    for contender in contenders:
        if inputs is None or contender.seed != seed:
            inputs, seed = build_inputs(contender.config), contender.seed
            bound = sustainable_rate([c.config for c in contenders if c.seed == seed], inputs)
        yield _search(Bench(contender, inputs), bound, limits, on_trial)


def limits_of(config: Config) -> Limits:
    """The limits that `config` asks for; ConfigError if it names none and has no objective.

    By default Sarathi-Serve's two: p99 of TBT within its objective, and a median queue delay within
    2 s. Without a TBT objective, p99 of every objective there is takes its place.
    """
    if config.capacity.limits:
        return config.capacity.limits
    asked = _objectives(config)
    if not asked:
        raise config.source.error("slo.tbt_s", "is needed to look for a capacity, or capacity.limits")
    if "tbt_s" in asked:
        asked = {"tbt_s": asked["tbt_s"]}
    return {f"{name}.p99": limit for name, limit in asked.items()} | {"queue_s.p50": QUEUE_LIMIT_S}


def unused_objectives(config: Config, limits: Limits) -> list[str]:
    """Keys of `config.slo` that `limits` do not hold a rate against."""
    if any(name.startswith("slo_attainment") for name in limits):
        return []
    used = {name.partition(".")[0] for name in limits}
    unused = [f"slo.{name}" for name in _objectives(config) if name not in used]
    return unused + (["slo.classes"] if config.slo.classes else [])


def _objectives(config: Config) -> dict[str, float]:
    """Every request's objectives, that of TBT first."""
    asked = config.slo.model_dump(include={"ttft_s", "tbt_s", "tpot_s", "e2e_s"}, exclude_none=True)
    return {name: asked[name] for name in sorted(asked, key=lambda name: name != "tbt_s")}


def _search(
    bench: Bench, bound: float | None, limits: Limits, on_trial: Callable[[Trial], None] | None
) -> Capacity:
    trials: dict[float, Trial] = {}

    def passes(rate_per_s: float) -> bool:
        trial = trials[rate_per_s] = _try(bench, rate_per_s, limits)
        if on_trial is not None:
            on_trial(trial)
        return trial.passes

    wanted = bench.config.capacity
    usual = bound or own_rate_per_s(bench.trace) or 1.0
    found = highest_passing(
        passes,
        usual / 2,
        precision=wanted.precision,
        lowest=wanted.min_rate_per_s or usual / 1024,
        highest=wanted.max_rate_per_s or usual * 8,
    )
    at_capacity = None if found.low is None else trials[found.low]
    contender = bench.contender
    return Capacity(
        contender.label, contender.seed, found, at_capacity, bound, limits, tuple(trials.values())
    )


def _try(bench: Bench, rate_per_s: float, limits: Limits) -> Trial:
    record, summary = bench.run(rate_per_s)
    values = {name: bench.metric(summary, name) for name in limits}
    return Trial(
        bench.contender.label,
        bench.contender.seed,
        rate_per_s,
        all(kept(name, values[name], limit) for name, limit in limits.items()),
        values,
        summary["throughput"]["output_tokens_per_s"],
        unsteady(record),
    )
