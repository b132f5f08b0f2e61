"""Traces: reading them from files, making them, looking at them. Imports only sim.core.

`load_trace` and `generate` are the way in; everything heavy is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.trace.load import load_trace
    from sim.trace.options import SyntheticSpec
    from sim.trace.parse import parse_synthetic
    from sim.trace.synthetic import generate

__all__ = ["SyntheticSpec", "generate", "load_trace", "parse_synthetic"]

_HOMES = {
    "SyntheticSpec": "sim.trace.options",
    "generate": "sim.trace.synthetic",
    "load_trace": "sim.trace.load",
    "parse_synthetic": "sim.trace.parse",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
