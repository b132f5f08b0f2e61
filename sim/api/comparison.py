"""compare: several policies and seeds over one trace, paired.

Owns what is the same for every contender (trace, seed, cost model, memory, shared limits), what
differs from seed to seed, and the tidy table of results. What the table shows is for sim/report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sim.api.bounding import common_bounds
from sim.api.inputs import build_inputs
from sim.api.load import ConfigLike, as_config, complete_policy
from sim.api.policies import only_declared, policy_class
from sim.api.result import Result
from sim.api.settings import Progress
from sim.api.simulation import run_with
from sim.config import Config, Source
from sim.config.parse import parse_policy
from sim.config.source import show
from sim.config.tree import CompareConfig, PolicyConfig
from sim.core.errors import ConfigError
from sim.core.registry import POLICIES
from sim.report.bounds import NoBounds

if TYPE_CHECKING:
    import pandas as pd

BOOTSTRAP_BLOCKS = 20
"""Of a file's requests, for seeds after the first: few enough to keep bursts whole, and enough to vary."""

PolicySpec = str | Mapping[str, Any]
"""A registered name, FILE.py:name, or a `policy` section of its own, perhaps with a `label`."""


@dataclass(frozen=True)
class Contender:
    """One run of a comparison, not yet simulated."""

    label: str
    seed: int
    config: Config


@dataclass(frozen=True)
class Outcome:
    """A contender that was simulated, and what no policy could have done better on its trace."""

    contender: Contender
    result: Result
    bounds: Mapping[str, Any]
    """Keys as in the summary; the same for every policy of a seed, empty where there are none."""
    no_bounds: str | None = None
    """Why there are none."""


def compare(
    config: ConfigLike,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    seeds: int | None = None,
    *,
    long: bool = False,
    progress: Callable[[Contender], Progress | None] | None = None,
) -> pd.DataFrame:
    """Run `policies` over the same trace and return one row a policy and seed.

    Columns: policy, seed, then every number of the summary by its path (`ttft_s.p99`), then what no
    policy can beat, under `bound.` (docs/bounds.md). Seed i is config.seed + i, the same for every
    policy; see `line_up` for what it changes. Defaults are config.compare, and where that names
    none, every registered policy. `long` gives one row a policy, seed and metric instead: columns
    policy, seed, metric, value. sim.means and sim.differences say what the seeds show.
    """
    import pandas as pd

    from sim.report.statistics import long_form

    contenders = line_up(as_config(config), policies, seeds)
    frame = pd.DataFrame([tidy_row(outcome) for outcome in run_all(contenders, progress)])
    return long_form(frame) if long else frame


def line_up(
    config: Config,
    policies: PolicySpec | Sequence[PolicySpec] | None = None,
    seeds: int | None = None,
) -> list[Contender]:
    """What a comparison will run, checked: seed by seed, policies in the order given.

    A policy takes from `config.policy` those parameters written there that it has too, so that
    limits are shared; a mapping's own parameters come on top. A synthetic trace is another one with
    each seed, and so is a file's if something of it is drawn (`arrivals`, `thin`, `bootstrap`). Of
    any other file the first seed is the file as it is, and each further one draws its requests
    again in BOOTSTRAP_BLOCKS blocks.
    """
    if isinstance(policies, (str, Mapping)):
        policies = [policies]
    if policies is not None and not policies:
        raise ConfigError(f"policies: name at least one; allowed: {', '.join(POLICIES)}, or FILE.py:name")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"seeds: must be at least 1, got {seeds}")
    specs = policies if policies is not None else config.compare.policies or list(POLICIES)
    source = config.source if policies is None else Source({})
    section = "compare.policies" if policies is None else "policies"
    chosen = {}
    for index, spec in enumerate(specs):
        label, policy = _variant(config, spec, source, f"{section}.{index}")
        if label in chosen:
            raise source.error(section, f"{label!r} is there twice; give one of them a label")
        chosen[label] = policy
    return [
        Contender(label, seed, of_seed.updated(policy=policy, compare=CompareConfig()))
        for seed in range(config.seed, config.seed + (seeds or config.compare.seeds))
        for of_seed in [reseeded(config, seed)]
        for label, policy in chosen.items()
    ]


def reseeded(config: Config, seed: int) -> Config:
    """`config` with another seed and, if its trace would be the same all the same, a bootstrap of it."""
    trace = config.trace
    drawn = trace.path is None or trace.bootstrap or trace.arrivals is not None or trace.thin is not None
    if seed != config.seed and not drawn:
        trace = trace.updated(bootstrap=BOOTSTRAP_BLOCKS)
    return config.updated(seed=seed, trace=trace)


def run_all(
    contenders: Sequence[Contender],
    progress: Callable[[Contender], Progress | None] | None = None,
) -> Iterator[Outcome]:
    """Simulate `contenders` one after another; inputs and bounds are made once a seed.

    `progress(contender)` gives the callback for that one's simulation.
    """
    for seed, group in groupby(contenders, lambda contender: contender.seed):
        listed = list(group)
        inputs = build_inputs(listed[0].config)
        try:
            bounds = common_bounds([c.config for c in contenders if c.seed == seed], inputs)
            no_bounds = None
        except NoBounds as error:
            bounds, no_bounds = {}, str(error)
        for contender in listed:
            report = None if progress is None else progress(contender)
            result = run_with(contender.config, inputs, label=contender.label, progress=report)
            yield Outcome(contender, result, bounds, no_bounds)


def tidy_row(outcome: Outcome) -> dict[str, Any]:
    """One row of the comparison: policy, seed, every number of the summary by dotted path, and bounds."""
    contender = outcome.contender
    who = {"policy": contender.label, "seed": contender.seed}
    return who | dict(_numbers(outcome.result.summary, "")) | dict(_numbers(outcome.bounds, "bound."))


def _variant(config: Config, spec: PolicySpec, source: Source, section: str) -> tuple[str, PolicyConfig]:
    """Label and completed policy section of one entry of a comparison's list."""
    if isinstance(spec, str):
        path, _, name = spec.rpartition(":")
        spec = {"name": name, "path": path or None}
    if not isinstance(spec, Mapping):
        raise source.error(section, f"must be a policy's name or a mapping with a name, got {show(spec)}")
    own = {key: value for key, value in spec.items() if key != "label"}
    parse_policy(own, source, section)
    cls = policy_class(source, own.get("name"), own.get("path"), section)
    written = config.source.values.get("policy") or {}
    shared = only_declared(cls, written)
    common = config.policy.model_dump(include=PolicyConfig.model_fields.keys() - {"name", "path"})
    policy = complete_policy(parse_policy({**common, **shared, **own}, source, section), source, section)
    return str(spec.get("label", policy.name)), policy


def _numbers(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if key == "provenance":
            continue
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif value is None or isinstance(value, (int, float)):
            yield prefix + key, value
