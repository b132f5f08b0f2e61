"""Pydantic's findings in this project's words: key, value, what is allowed, nearest match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sim.config.source import show
from sim.core.errors import suggestion

_KINDS = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of keys",
    "finite_number": "a finite number",
    "invalid_key": "a key that is text",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def problem_of(finding: Mapping[str, Any], allowed_keys: Iterable[str]) -> str:
    """What is wrong with the value of one finding of pydantic's `ValidationError.errors()`.

    `allowed_keys` are the keys of the section the finding lies in.
    """
    kind, got = finding["type"], show(finding["input"])
    context = finding.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(finding["loc"][-1])
        return f"unknown key: {suggestion(key, allowed_keys)}"
    if kind == "missing":
        return "is required"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, got {got}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound]
        return f"must be {words} {limit if isinstance(limit, int) else f'{limit:g}'}, got {got}"
    if kind == "string_pattern_mismatch":
        return f"must be usable as the name of a folder, got {got}"
    if kind == "literal_error":
        return f"unknown value {got}: {suggestion(str(finding['input']), _literals(context['expected']))}"
    return str(finding["msg"])


def _literals(expected: str) -> list[str]:
    """The words of pydantic's `'a', 'b' or 'c'`."""
    return [word.strip(" '") for part in expected.split(" or ") for word in part.split(",")]
