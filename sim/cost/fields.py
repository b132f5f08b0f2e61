"""Fields: reading mappings from YAML strictly, with errors that name file, key and value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sim.core.errors import ProfileError, suggestion


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in the YAML file at `path`; ProfileError if unreadable or not a mapping."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ProfileError(f"{path}: not valid YAML: {error}") from error
    return mapping(content, str(path))


def mapping(value: object, where: str) -> dict[str, Any]:
    """`value` as a dict with text keys."""
    if not isinstance(value, Mapping):
        raise ProfileError(f"{where}: must be a mapping of keys to values, not {value!r}")
    return {str(key): entry for key, entry in value.items()}


def check_keys(given: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Raise at the first key that is not allowed, with the nearest one that is."""
    names = list(allowed)
    for key in given:
        if key not in names:
            raise ProfileError(f"{where}: unknown key {key!r}: {suggestion(key, names)}")


def number(
    given: Mapping[str, Any],
    key: str,
    where: str,
    *,
    default: float | None = None,
    above: float | None = None,
) -> float:
    """A finite number >= 0, or > `above` where given; a missing key without default is an error."""
    value = given.get(key, default)
    if value is None:
        raise ProfileError(f"{where}: {key} is missing; it must be a number")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise ProfileError(f"{where}: {key} must be a number, not {value!r}")
    if above is not None and value <= above:
        raise ProfileError(f"{where}: {key} must be above {above:g}, not {value!r}")
    if above is None and value < 0:
        raise ProfileError(f"{where}: {key} must not be negative, but is {value!r}")
    return float(value)


def integer(
    given: Mapping[str, Any], key: str, where: str, *, default: int | None = None, minimum: int = 1
) -> int:
    """A whole number of at least `minimum`."""
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ProfileError(f"{where}: {key} must be a whole number of at least {minimum}, not {value!r}")
    return value


def text(given: Mapping[str, Any], key: str, where: str) -> str:
    """A non-empty string."""
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise ProfileError(f"{where}: {key} must be text, not {value!r}")
    return value
