"""Limits of options: fields with documentation and bounds, and the checks that hold objects to them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import MISSING
from typing import Any

from sim.core.errors import ConfigError, suggestion
from sim.core.registry import param

TINY = 1e-9
"""Stands for "above zero" in the limits of rates, widths and shapes."""


def required(doc: str, **limits: Any) -> Any:
    """A documented field without a default."""
    return param(MISSING, doc, **limits)


def check_options(options: Any) -> None:
    """Hold every plain number and word of `options` against the limits in its field's metadata."""
    for field in dataclasses.fields(options):
        value, limits = getattr(options, field.name), field.metadata
        allowed = limits.get("allowed")
        if allowed and value not in allowed:
            raise ConfigError(f"{field.name}: unknown value {value!r}: {suggestion(str(value), allowed)}")
        values = value if isinstance(value, tuple) else (value,)
        for number in values:
            if isinstance(number, (int, float)):
                check_number(field.name, number, limits.get("minimum"), limits.get("maximum"))


def check_number(name: str, number: float, minimum: float | None, maximum: float | None) -> None:
    """ConfigError, with `name` before it, if `number` is not finite or out of bounds."""
    if not math.isfinite(number):
        raise ConfigError(f"{name}: {number} is not a finite number")
    if minimum is not None and number < minimum:
        least = "above 0" if minimum == TINY else f"at least {minimum}"
        raise ConfigError(f"{name}: {number} is too small; it must be {least}")
    if maximum is not None and number > maximum:
        raise ConfigError(f"{name}: {number} is too large; it must be at most {maximum}")


def check_quantiles(quantiles: tuple[tuple[float, float], ...], table: str | None) -> None:
    """ConfigError unless there is one of the two, and the quantiles are a quantile function."""
    if bool(quantiles) == (table is not None):
        raise ConfigError("give either quantiles or table")
    if not quantiles:
        return
    probabilities, values = zip(*quantiles, strict=True)
    if probabilities[0] != 0 or probabilities[-1] != 1:
        raise ConfigError("quantiles: the probabilities must go from 0 to 1")
    for name, column in (("probabilities", probabilities), ("values", values)):
        if any(later < earlier for earlier, later in itertools.pairwise(column)):
            raise ConfigError(f"quantiles: the {name} must not fall")
    if values[0] < 0:
        raise ConfigError(f"quantiles: {values[0]} is negative")
