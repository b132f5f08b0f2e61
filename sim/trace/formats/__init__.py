"""Trace formats: one file and one line of MODULES each.

A format's module ends with `FORMAT = TraceFormat(...)`. To add one: write the file, name it in
MODULES. The order is the order in which files are recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from sim.core.errors import TraceError, suggestion
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource

MODULES = (
    "parquet",
    "azure",
    "burstgpt",
    "mooncake",
    "bailian",
    "vidur",
    "splitwise",
    "llmservingsim",
    "aiperf",
    "guidellm",
    "serving_bench",
    "sharegpt",
    "plain",
)


@dataclass(frozen=True)
class TraceFormat:
    """A file format: how to recognise it and how to read it."""

    name: str
    title: str
    columns: Mapping[str, str]
    """What is read, by the file's own names; documentation, and the table of docs/traces.md."""
    detect: Callable[[TraceSource], bool]
    read: Callable[[TraceSource, RawTrace], None]
    """Fill the RawTrace; stop early once it is full."""


def trace_formats() -> dict[str, TraceFormat]:
    """Every format by name, in the order of MODULES."""
    formats = (import_module(f"{__name__}.{module}").FORMAT for module in MODULES)
    return {format_.name: format_ for format_ in formats}


def find_format(name: str, source: TraceSource) -> TraceFormat:
    """The format called `name`, or for "auto" the first that recognises the file's beginning."""
    formats = trace_formats()
    if name != "auto":
        if name not in formats:
            raise TraceError(f"unknown trace format {name!r}: {suggestion(name, ['auto', *formats])}")
        return formats[name]
    for format_ in formats.values():
        if format_.detect(source):
            return format_
    if not source.first_line and not source.is_parquet:
        raise TraceError(f"{source.path}: the file is empty")
    raise TraceError(
        f"{source.path}: no trace format recognises it; it begins with {source.first_line[:120]!r}; "
        f"give trace.format, one of {', '.join(formats)}"
    )
