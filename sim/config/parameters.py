"""The parameters a class declares, as a config gives them: checked against hints and limits, completed.

Owns the meaning of type hints and of `sim.core.registry.param` metadata for user input.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from sim.config.source import Source, show
from sim.core.errors import suggestion

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "text", types.NoneType: "null"}


def check_parameters(
    cls: type, given: Mapping[str, Any], source: Source, section: str, others: Iterable[str] = ()
) -> dict[str, Any]:
    """`given` with every default of dataclass `cls` written out.

    `others` are keys that the section takes besides, which an unknown one may have been meant for.
    Raises ConfigError, placed by `source` at `section`.<key>, for an unknown key, a wrong type, a
    value outside the declared limits, or a parameter without default that is missing.
    """
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for key in given:
        if key not in fields:
            raise source.error(f"{section}.{key}", f"unknown key: {suggestion(key, [*fields, *others])}")
    hints = typing.get_type_hints(cls)
    values = {}
    for name, field in fields.items():
        value = given[name] if name in given else _default(field)
        if value is dataclasses.MISSING:
            raise source.error(f"{section}.{name}", "is required")
        problem = _problem(value, hints[name], field.metadata) if name in given else None
        if problem is not None:
            raise source.error(f"{section}.{name}", f"{problem}, got {show(value)}")
        values[name] = value
    return values


def describe_type(hint: Any) -> str:
    """`an integer`, `an integer or 'auto'`, ... for a type hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(argument) for argument in arguments)
    if origin is typing.Literal:
        return " or ".join(show(argument) for argument in arguments)
    if origin in (list, tuple):
        return "a list"
    if origin is dict:
        return "a mapping"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _problem(value: Any, hint: Any, limits: Mapping[str, Any]) -> str | None:
    """Why `value` cannot be this parameter, None if it can."""
    if not _accepts(hint, value):
        return f"must be {describe_type(hint)}"
    allowed = limits.get("allowed")
    if allowed and value not in allowed:
        return f"unknown value: {suggestion(str(value), map(str, allowed))}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _out_of_bounds(value, limits)
    return None


def _out_of_bounds(value: float, limits: Mapping[str, Any]) -> str | None:
    if not math.isfinite(value):
        return "must be a finite number"
    minimum, maximum = limits.get("minimum"), limits.get("maximum")
    if minimum is not None and value < minimum:
        return f"must be at least {minimum:g}"
    if maximum is not None and value > maximum:
        return f"must be at most {maximum:g}"
    return None


def _accepts(hint: Any, value: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_accepts(argument, value) for argument in arguments)
    if origin is typing.Literal:
        return any(value == argument and type(value) is type(argument) for argument in arguments)
    if hint is Any:
        return True
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin in (list, tuple):
        return isinstance(value, list)
    return isinstance(value, origin or hint)
