"""Identity: when two cells, input files or simulators are the same, as short SHA-256 digests.

A result may be taken from a journal, and a trace or cost model from a worker's memory, only if
everything it depends on is unchanged: the resolved config, the content of every file that names,
and the code that simulates.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import policies
import sim
from sim.api.inputs import found_paths
from sim.config import Config
from sim.config.tree import TraceConfig
from sim.core.registry import POLICIES
from sim.core.shipped import shipped_root

FILE_KEYS = ("file", "path", "table")
"""Keys of a config whose values name files, in whatever section."""

SEEDLESS = {
    "path", "format", "limit", "rate_scale", "window_s", "max_prompt_tokens", "max_output_tokens",
    "max_total_tokens", "over_cap", "closed_loop",
}
"""Options of a trace that draw nothing from the seed."""

CODE_LEFT_OUT = ("cli/", "measure/", "report/plots/")
"""Parts of the package that no row of a table goes through."""


def digest_of(value: Any) -> str:
    """The digest of plain values."""
    return _short(json.dumps(value, sort_keys=True, default=str).encode())


@cache
def code_digest() -> str:
    """Of all code and shipped tables that a result may depend on, as this process found them.

    The same for a checkout and an installed package of the same content.
    """
    package, configs = Path(sim.__file__).parent, shipped_root() / "configs"
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    return _content(
        [modules[name] for name in sorted(modules) if not name.startswith(CODE_LEFT_OUT)]
        + sorted(Path(policies.__file__).parent.rglob("*.py"))
        + [path for folder in ("models", "gpus", "cost") for path in sorted((configs / folder).rglob("*"))]
    )


def own_policy(config: Config) -> type | None:
    """The class of a policy that neither the package nor a file of the config's defines, else None."""
    if config.policy.path is not None:
        return None
    cls = POLICIES.get(str(config.policy.name))
    return None if cls.__module__.partition(".")[0] == policies.__name__ else cls


def class_digest(cls: type) -> str:
    """Of the source of a class; where that is not to be had, one that equals no other."""
    try:
        return _short(inspect.getsource(cls).encode())
    except (OSError, TypeError):
        return uuid.uuid4().hex[:16]


def located(config: Config) -> Config:
    """`config` with every path absolute, so that it means the same in a process started elsewhere."""
    source, trace, policy = config.source, config.trace, config.policy
    path = None if trace.path is None else os.path.abspath(source.find(trace.path))
    options = {
        name: _absolute(found_paths(getattr(trace, name), source)) for name in ("synthetic", "arrivals")
    }
    file = None if policy.path is None else os.path.abspath(source.find(policy.path))
    return config.updated(
        trace=trace.updated(path=path, **options),
        cost_model=_absolute(found_paths(config.cost_model, source)),
        policy=policy.updated(path=file),
    )


class Digests:
    """Digests of cells and their parts; every file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}

    def trace(self, config: Config) -> str:
        """Of what makes the trace of a located config, but for its rate_scale."""
        section = config.trace
        drawn = any(
            getattr(section, name) != field.default
            for name, field in TraceConfig.model_fields.items()
            if name not in SEEDLESS
        )
        values = section.model_dump(mode="json", exclude={"rate_scale"})
        return self._with_files([values, config.seed if drawn else None])

    def cost(self, config: Config) -> str:
        """Of what makes the cost model of a located config: its section, on its replica."""
        return self._with_files([config.cost_model, config.replica.model_dump(mode="json")])

    def cell(self, config: Config) -> str:
        """Of all that the result of a located config depends on, but for where its files lie."""
        values = config.to_dict()
        return digest_of([_without_folders(values), [self._file(path) for path in _named_files(values)]])

    def files(self, config: Config) -> dict[str, str]:
        """The files and folders a located config names, and the digest of each."""
        return {path: self._file(path) for path in _named_files(config.to_dict())}

    def _with_files(self, values: Any) -> str:
        return digest_of([values, [self._file(path) for path in _named_files(values)]])

    def _file(self, path: str) -> str:
        if path not in self._files:
            place = Path(path)
            self._files[path] = _content(sorted(place.rglob("*")) if place.is_dir() else [place])
        return self._files[path]


def _named_files(values: Any) -> Iterator[str]:
    if isinstance(values, Mapping):
        for key, value in values.items():
            if key in FILE_KEYS and isinstance(value, str) and os.path.exists(value):
                yield value
            else:
                yield from _named_files(value)
    elif isinstance(values, list):
        for value in values:
            yield from _named_files(value)


def _without_folders(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_folders(value) for value in values]
    if not isinstance(values, Mapping):
        return values
    return {
        key: os.path.basename(value)
        if key in FILE_KEYS and isinstance(value, str)
        else _without_folders(value)
        for key, value in values.items()
    }


def _absolute(values: Any) -> Any:
    """`values` with the paths of existing files absolute; names of shipped ones stay names."""
    if isinstance(values, list):
        return [_absolute(value) for value in values]
    if not isinstance(values, Mapping):
        return values
    return {
        key: os.path.abspath(value)
        if key in FILE_KEYS and isinstance(value, str) and os.path.exists(value)
        else _absolute(value)
        for key, value in values.items()
    }


def _content(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
