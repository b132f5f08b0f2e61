"""compare: several policies and seeds over one trace, paired.

Owns what is the same for every contender (trace, seed, cost model, memory, shared limits) and the
tidy table of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.api.inputs import build_inputs
from sim.api.load import complete_policy
from sim.api.policies import only_declared, policy_class
from sim.api.result import Result
from sim.api.settings import Progress
from sim.api.simulation import run_with
from sim.config import Config, Source
from sim.config.parse import parse_policy
from sim.config.source import show
from sim.config.tree import CompareConfig, PolicyConfig
from sim.core.registry import POLICIES

if TYPE_CHECKING:
    import pandas as pd

PolicySpec = str | Mapping[str, Any]
"""A registered name, FILE.py:name, or a `policy` section of its own, perhaps with a `label`."""


@dataclass(frozen=True)
class Contender:
    """One run of a comparison, not yet simulated."""

    label: str
    seed: int
    config: Config


def compare(
    config: Config,
    policies: Sequence[PolicySpec] | None = None,
    seeds: int | None = None,
    *,
    progress: Callable[[Contender], Progress | None] | None = None,
) -> pd.DataFrame:
    """Run `policies` over the same trace and return one row a policy and seed.

    Columns: policy, seed, then every number of the summary by its path (`ttft_s.p99`). Seed i is
    config.seed + i, the same for every policy. Defaults are config.compare, and where that names
    none, every registered policy.
    """
    import pandas as pd

    contenders = line_up(config, policies, seeds)
    rows = [tidy_row(contender, result) for contender, result in run_all(contenders, progress)]
    return pd.DataFrame(rows)


def line_up(
    config: Config, policies: Sequence[PolicySpec] | None = None, seeds: int | None = None
) -> list[Contender]:
    """What a comparison will run, checked: seed by seed, policies in the order given.

    A policy takes from `config.policy` those parameters written there that it has too, so that
    limits are shared; a mapping's own parameters come on top.
    """
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
        Contender(label, seed, config.updated(policy=policy, seed=seed, compare=CompareConfig()))
        for seed in range(config.seed, config.seed + (seeds or config.compare.seeds))
        for label, policy in chosen.items()
    ]


def run_all(
    contenders: Sequence[Contender],
    progress: Callable[[Contender], Progress | None] | None = None,
) -> Iterator[tuple[Contender, Result]]:
    """Simulate `contenders` one after another; inputs are built once a seed.

    `progress(contender)` gives the callback for that one's simulation.
    """
    inputs, seed = None, None
    for contender in contenders:
        if inputs is None or contender.seed != seed:
            inputs, seed = build_inputs(contender.config), contender.seed
        report = None if progress is None else progress(contender)
        yield contender, run_with(contender.config, inputs, label=contender.label, progress=report)


def tidy_row(contender: Contender, result: Result) -> dict[str, Any]:
    """One row of the comparison: policy, seed, and every number of the summary by dotted path."""
    numbers = dict(_numbers(result.summary, ""))
    return {"policy": contender.label, "seed": contender.seed, **numbers}


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
