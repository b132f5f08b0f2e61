"""Source: a config as the user wrote it, so that every later error can say where.

Owns reading YAML with line numbers, laying overrides over it, and resolving paths. Knows no key.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sim.core.errors import ConfigError
from sim.core.shipped import shipped_root


@dataclass(frozen=True)
class Source:
    """Values by section, where they were written, and what was laid over them."""

    values: dict[str, Any]
    path: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each dotted key, counted from 1."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted key, in the order they were given."""

    def error(self, key: str, problem: str) -> ConfigError:
        """`file:line: key: problem`, or with the override in place of the file if it set that key."""
        return ConfigError(f"{self.where(key)}: {problem}")

    def where(self, key: str) -> str:
        """The place of `key` for messages: `file:line: key`, or `override key=value`.

        Overrides below a section that is in the file are mentioned with it.
        """
        for dotted, value in reversed(list(self.overrides.items())):
            if key == dotted:
                return f"override {dotted}={show(value)}"
            if key.startswith(f"{dotted}."):
                return f"override {dotted}={show(value)}: {key}"
        below = [f"{k}={show(v)}" for k, v in self.overrides.items() if k.startswith(f"{key}.")]
        if below and key not in self.lines:
            return f"override {below[0]}: {key}"
        place = "" if self.path is None else f"{self.path}{self._line(key)}: "
        return f"{place}{key}" + (f" (with {', '.join(below)})" if below else "")

    def _line(self, key: str) -> str:
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return f":{self.lines[key]}" if key else ""

    def find(self, path: str) -> Path:
        """`path` as it is, beside the config file, or among the shipped files: the first that exists.

        The path as it is if none does, for the reader of the file to complain about.
        """
        folders = [Path()] if self.path is None else [Path(), self.path.parent]
        for folder in [*folders, shipped_root()]:
            if (folder / path).exists():
                return folder / path
        return Path(path)

    def overridden(self, overrides: Mapping[str, Any]) -> Source:
        """This source with `overrides`, dotted keys to values, laid over its values."""
        values = copy.deepcopy(self.values)
        for dotted, value in overrides.items():
            _lay_over(values, dotted, value)
        return Source(values, self.path, self.lines, {**self.overrides, **overrides})


def show(value: Any) -> str:
    """A value as a user would write it: true, null, 'text', 3, [1, 2]."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def read_source(path: str | Path) -> Source:
    """Read a YAML file; ConfigError if it is missing, unreadable, not YAML or not a mapping."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such config file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a config file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read: {error}") from None
    lines: dict[str, int] = {}
    values = _parse(text, str(path), lines)
    if values is None:
        raise ConfigError(f"{path}: the config is empty")
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a config is a mapping of sections, got {show(values)}")
    return Source(values, path, lines)


def parse_value(text: str) -> Any:
    """The value of a `--set key=text` override, read as YAML; ConfigError if it is none."""
    return _parse(text, "value", {})


class _Loader(yaml.SafeLoader):
    """YAML 1.1 with the floats of YAML 1.2, so that 1e-3 is a number and not a word."""

    yaml_implicit_resolvers = copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers)


_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def _parse(text: str, name: str, lines: dict[str, int]) -> Any:
    """YAML to values, noting the line of every dotted key in `lines`."""
    try:
        return _load(text, name, lines)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{name}{line}: not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{name}: not valid YAML: {error.reason}") from None
    except RecursionError:
        raise ConfigError(f"{name}: not valid YAML: it is nested too deeply, or in itself") from None
    except ValueError as error:
        raise ConfigError(f"{name}: not valid YAML: {error}") from None


def _load(text: str, name: str, lines: dict[str, int]) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _note_lines(node, "", name, lines)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _note_lines(node: yaml.Node, prefix: str, name: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _note_lines(child, f"{prefix}{index}.", name, lines)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[Hashable] = set()
    for key, child in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{name}:{line}: a key must be text")
        dotted = f"{prefix}{key.value}"
        if key.value in seen:
            raise ConfigError(f"{name}:{line}: {dotted}: given twice")
        seen.add(key.value)
        lines[dotted] = line
        _note_lines(child, f"{dotted}.", name, lines)


def _lay_over(values: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, last = dotted.split(".")
    if not all((*sections, last)):
        raise ConfigError(f"override {dotted}={show(value)}: the key must look like section.key")
    here = values
    for depth, section in enumerate(sections):
        inner = here.get(section)
        if inner is None:
            inner = here[section] = {}
        if not isinstance(inner, dict):
            parent = ".".join(sections[: depth + 1])
            raise ConfigError(f"override {dotted}={show(value)}: {parent} is {show(inner)}, not a section")
        here = inner
    here[last] = value
