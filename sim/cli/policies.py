"""`policies [NAME...]`: what each policy does, where it comes from, and the parameters it takes."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

import policies  # noqa: F401  registers the built-in ones
from sim.cli.console import say
from sim.config.parameters import describe_type
from sim.config.source import show
from sim.core.registry import POLICIES

WIDTH = 80
"""Columns of a terminal that nobody has widened."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these (default: all)")


def main(arguments: argparse.Namespace) -> int:
    names = arguments.names or list(POLICIES)
    say("\n\n".join(describe(POLICIES.get(name)) for name in names))
    return 0


def describe(cls: Any) -> str:
    """Name, meaning, source and a line for every parameter."""
    lines = [cls.name, *_indented(inspect.getdoc(cls) or ""), ""]
    if cls.source:
        lines.append(_filled(f"source: {cls.source}", 4, 8))
    lines.append("    parameters:")
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.init:
            lines.append(_parameter(field, hints[field.name]))
    return "\n".join(lines)


def _indented(doc: str) -> list[str]:
    return "\n\n".join(_filled(paragraph, 4, 4) for paragraph in doc.split("\n\n")).splitlines()


def _parameter(field: dataclasses.Field[Any], hint: Any) -> str:
    default = "required" if field.default is dataclasses.MISSING else f"default {show(field.default)}"
    limits = _limits(field.metadata)
    meaning = field.metadata.get("doc", "")
    text = f"{field.name}: {meaning} ({describe_type(hint)}{limits}; {default})"
    return _filled(text, 6, 10)


def _filled(text: str, indent: int, hanging: int) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * hanging)


def _limits(metadata: Mapping[str, Any]) -> str:
    words = []
    if metadata.get("allowed"):
        words.append("one of " + ", ".join(map(str, metadata["allowed"])))
    if metadata.get("minimum") is not None:
        words.append(f"at least {metadata['minimum']:g}")
    if metadata.get("maximum") is not None:
        words.append(f"at most {metadata['maximum']:g}")
    return "".join(f", {word}" for word in words)
