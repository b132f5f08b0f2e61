"""Reading a SyntheticSpec from a plain mapping (YAML, JSON, a notebook), strictly.

Owns the errors a user meets: each names the key by its full path, the value, and what is allowed.
The fields themselves, their types and limits come from sim/trace/options.py.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from sim.core.errors import ConfigError, suggestion
from sim.trace.options import ARRIVALS, DELAYS, LENGTHS, Arrivals, Delay, Length, SyntheticSpec
from sim.trace.raw import MOST_TOKENS


def parse_synthetic(spec: SyntheticSpec | Mapping[str, Any], where: str = "synthetic") -> SyntheticSpec:
    """The spec that a mapping describes; a SyntheticSpec is returned as it is.

    `where` is the path of the mapping in its file, for errors ("trace.synthetic"). Raises
    ConfigError for an unknown key or word (nearest match offered), a missing key, a wrong type, or
    a value outside its limits.
    """
    return spec if isinstance(spec, SyntheticSpec) else _object(SyntheticSpec, spec, where)


def parse_arrivals(arrivals: Arrivals | Mapping[str, Any], where: str = "arrivals") -> Arrivals:
    """As parse_synthetic, for an arrival process alone."""
    made: Arrivals = arrivals if isinstance(arrivals, Arrivals) else _member(Arrivals, arrivals, where)
    return made


def spec_to_mapping(spec: Any) -> dict[str, Any]:
    """The plain mapping that parse_synthetic turns back into `spec`; defaults and all."""
    tag = next((key for family, key, _ in _FAMILIES.values() if type(spec) in family.values()), None)
    mapping: dict[str, Any] = {} if tag is None else {tag: spec.TAG}
    for field in dataclasses.fields(spec):
        mapping[field.name] = _plain(getattr(spec, field.name))
    return mapping


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return spec_to_mapping(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


_FAMILIES: dict[Any, tuple[dict[str, Any], str, str]] = {
    Arrivals: (ARRIVALS, "process", "poisson"),
    Length: (LENGTHS, "distribution", ""),
    Delay: (DELAYS, "distribution", ""),
}
"""By declared type: the classes by tag, the tag's key, and the tag when the key is left out."""


def _object(cls: Any, mapping: Any, where: str) -> Any:
    """An instance of the dataclass `cls` from `mapping`."""
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"{where}: expected a mapping, got {mapping!r}")
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in mapping:
        if key not in fields:
            raise ConfigError(f"{where}.{key}: unknown key: {suggestion(str(key), fields)}")
    for name, field in fields.items():
        if name not in mapping and field.default is dataclasses.MISSING:
            raise ConfigError(f"{where}.{name}: missing; {field.metadata['doc']}")
    values = {key: _value(hints[key], value, f"{where}.{key}") for key, value in mapping.items()}
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}" if ": " in str(error) else f"{where}: {error}") from None


def _value(kind: Any, value: Any, where: str) -> Any:
    """`value` as the declared type `kind`."""
    if kind in _FAMILIES:
        return _member(kind, value, where)
    if get_origin(kind) in (Union, types.UnionType):
        inner = next(option for option in get_args(kind) if option is not type(None))
        return None if value is None else _value(inner, value, where)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value, where)
    if get_origin(kind) is not None:
        return _shares(get_args(kind), value, where)
    if dataclasses.is_dataclass(kind):
        return _object(kind, value, where)
    return _SCALARS[kind](value, where)


def _member(kind: Any, value: Any, where: str) -> Any:
    """One of a tagged family; a bare number means the fixed one."""
    family, tag, default = _FAMILIES[kind]
    if isinstance(value, (int, float)) and "fixed" in family:
        field = dataclasses.fields(family["fixed"])[0].name
        return _object(family["fixed"], {field: value}, where)
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a mapping with {tag}, got {value!r}")
    name = value.get(tag, default)
    if not name:
        raise ConfigError(f"{where}.{tag}: missing; allowed: {', '.join(family)}")
    if name not in family:
        raise ConfigError(f"{where}.{tag}: unknown value {name!r}: {suggestion(str(name), family)}")
    return _object(family[name], {key: item for key, item in value.items() if key != tag}, where)


def _tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: expected a list, got {value!r}")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        raise ConfigError(f"{where}: expected {len(kinds)} values, got {value!r}")
    items = enumerate(zip(kinds, value, strict=True))
    return tuple(_value(kind, item, f"{where}[{index}]") for index, (kind, item) in items)


def _shares(kinds: tuple[Any, ...], value: Any, where: str) -> dict[Any, float]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a mapping of names to shares, got {value!r}")
    key_kind, share_kind = kinds
    return {
        _SCALARS[key_kind](key, f"{where} key"): _SCALARS[share_kind](share, f"{where}.{key}")
        for key, share in value.items()
    }


def _integer(value: Any, where: str) -> int:
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    if not whole:
        raise ConfigError(f"{where}: expected a whole number, got {value!r}")
    if abs(value) > MOST_TOKENS:
        raise ConfigError(f"{where}: {value!r} is too large; it must be at most {MOST_TOKENS}")
    return int(value)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{where}: expected a number, got {value!r}")
    return float(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, (str, int)):
        raise ConfigError(f"{where}: expected a text, got {value!r}")
    return str(value)


_SCALARS: dict[Any, Callable[[Any, str], Any]] = {int: _integer, float: _number, str: _text}
