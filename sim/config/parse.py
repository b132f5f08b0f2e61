"""From a Source to the validated tree, with a message for every finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from sim.config.messages import problem_of
from sim.config.source import Source
from sim.config.tree import Config, PolicyConfig, Section
from sim.core.errors import ConfigError

S = TypeVar("S", bound=Section)


def parse_config(source: Source) -> Config:
    """The validated tree of `source`; ConfigError with a line for every finding otherwise."""
    config = _validated(Config, source.values, source, "")
    config._source = source
    return config


def parse_policy(values: Mapping[str, Any], source: Source, section: str) -> PolicyConfig:
    """A `policy` section on its own; its errors are placed by `source` at `section`."""
    return _validated(PolicyConfig, values, source, section)


def _validated(cls: type[S], values: Mapping[str, Any], source: Source, section: str) -> S:
    try:
        return cls.model_validate(dict(values))
    except ValidationError as failure:
        problems = [_locate(cls, finding, source, section) for finding in failure.errors(include_url=False)]
        raise ConfigError("\n".join(str(problem) for problem in problems)) from None


def _locate(cls: type[Section], finding: Mapping[str, Any], source: Source, section: str) -> ConfigError:
    location = [str(part) for part in finding["loc"]]
    key = ".".join(filter(None, [section, *location]))
    return source.error(key, problem_of(finding, _keys_of(cls, location[:-1])))


def _keys_of(section: type[Section], location: list[str]) -> list[str]:
    """The keys that the section at `location` below `section` takes."""
    for part in location:
        if part not in section.model_fields:
            continue  # a name of the user's in a mapping of sections, as in slo.classes.<name>
        annotation = section.model_fields[part].annotation
        options = [annotation, *get_args(annotation)]
        section = next(o for o in options if isinstance(o, type) and issubclass(o, Section))
    return list(section.model_fields)
