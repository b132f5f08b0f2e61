"""load_config: a config read, overridden, and checked against every part it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.api.policies import complete_parameters, only_declared, policy_class
from sim.config import Config, Source, parse_config, read_source
from sim.config.tree import PolicyConfig
from sim.core.errors import ConfigError
from sim.trace.parse import parse_synthetic, spec_to_mapping

ConfigLike = Config | str | Path | Mapping[str, Any]
"""A config that was loaded, a file of one, or a mapping of its sections."""


def load_config(
    config: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> Config:
    """The config in the file `config` (or in a mapping of sections) with `overrides` laid over it.

    `overrides` are dotted keys and values, {"policy.token_budget": 512}. Parameters of the policy
    and of a synthetic trace are completed with their defaults. Raises ConfigError (a UserError)
    that names file, line, key, value and what is allowed.
    """
    return _completed(Source(dict(config)) if isinstance(config, Mapping) else read_source(config), overrides)


def as_config(config: ConfigLike) -> Config:
    """A config that was loaded as it is, a file or mapping of sections as load_config gives it."""
    if isinstance(config, Config):
        return config
    if isinstance(config, (str, Path, Mapping)):
        return load_config(config)
    raise ConfigError(
        "a config is what sim.load_config returns, a path, or a mapping of sections; "
        f"got {type(config).__name__}"
    )


def current_source(config: Config) -> Source:
    """What `config` was read from, or, if it was changed since, a source with its values as they are now."""
    as_read = _completed(config.source, None) if config.source.values else None
    return config.source if as_read == config else Source(config.to_dict())


def overlaid(source: Source, overrides: Mapping[str, Any]) -> Config:
    """The config of `source` with more overrides laid over it, checked as load_config checks."""
    return _completed(source, overrides)


def _completed(source: Source, overrides: Mapping[str, Any] | None) -> Config:
    if overrides:
        source = _drop_foreign_parameters(source.overridden(overrides), source)
    parsed = parse_config(source)
    synthetic = parsed.trace.synthetic
    return parsed.updated(
        policy=complete_policy(parsed.policy, source),
        trace=parsed.trace if synthetic is None else parsed.trace.updated(
            synthetic=_complete_synthetic(synthetic, source)
        ),
    )


def complete_policy(policy: PolicyConfig, source: Source, section: str = "policy") -> PolicyConfig:
    """`policy` with every parameter of its class; ConfigError for one the class does not take."""
    cls = policy_class(source, policy.name, policy.path, section)
    parameters = complete_parameters(cls, policy.parameters, source, section)
    name = policy.name or getattr(cls, "name", cls.__name__)
    return policy.updated(name=name, **parameters)


def _complete_synthetic(synthetic: dict[str, Any], source: Source) -> dict[str, Any]:
    where = "trace.synthetic"
    try:
        return spec_to_mapping(parse_synthetic(synthetic, where))
    except ConfigError as error:
        key, _, problem = str(error).partition(": ")
        raise source.error(key, problem) from None


def _drop_foreign_parameters(source: Source, written: Source) -> Source:
    """Where an override names another policy, keep only those written parameters that it has too.

    The file's parameters were meant for the policy it names; those in the overrides are kept.
    """
    policy, previous = source.values.get("policy"), written.values.get("policy")
    if "policy.name" not in source.overrides:
        return source
    if not isinstance(policy, dict) or not isinstance(previous, dict):
        return source
    name, path = policy.get("name"), policy.get("path")
    if name == previous.get("name") or not isinstance(name, str) or not isinstance(path, str | None):
        return source
    foreign = {
        key: value
        for key, value in previous.items()
        if key not in PolicyConfig.model_fields and f"policy.{key}" not in source.overrides
    }
    kept = only_declared(policy_class(source, name, path), foreign)
    left = {key: value for key, value in policy.items() if key not in foreign or key in kept}
    return Source({**source.values, "policy": left}, source.path, source.lines, source.overrides)
