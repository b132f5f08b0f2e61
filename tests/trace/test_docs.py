"""docs/traces.md says what the code does: every format's columns, every option, an example that runs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from sim.trace import generate, options
from sim.trace.formats import TraceFormat, trace_formats

DOCS = (Path(__file__).parents[2] / "docs/traces.md").read_text(encoding="utf-8")
OPTION_CLASSES = [
    options.SyntheticSpec, options.Sessions, options.SharedPrefix, options.Arrivals, options.Diurnal,
    options.Markov, options.Curve, options.Crowd,
]  # fmt: skip

SHARED = {field.name for field in dataclasses.fields(options.Arrivals)}
"""What every arrival process takes."""


@pytest.mark.parametrize("trace_format", trace_formats().values(), ids=lambda found: found.name)
def test_every_format_stands_in_the_page_with_its_columns(trace_format: TraceFormat) -> None:
    rows = "".join(f"| `{column}` | {meaning} |\n" for column, meaning in trace_format.columns.items())
    heading = f"### `{trace_format.name}`: {trace_format.title}\n\n| in the file | read as |\n|---|---|\n"
    assert heading + rows in DOCS


@pytest.mark.parametrize("cls", OPTION_CLASSES)
def test_every_option_stands_in_the_page_with_its_meaning(cls: type) -> None:
    for field in dataclasses.fields(cls):
        assert re.search(rf"\| `{field.name}` \| [^|]+ \| {re.escape(field.metadata['doc'])} \|", DOCS), (
            field.name
        )


def test_every_distribution_and_process_stands_in_the_page_with_its_keys() -> None:
    for family in (options.ARRIVALS, options.LENGTHS, options.DELAYS):
        for tag, cls in family.items():
            own = {field.name for field in dataclasses.fields(cls)} - SHARED
            rows = [line for line in DOCS.splitlines() if line.startswith(f"| `{tag}` |")]
            assert any(all(f"`{key}`" in line for key in own) for line in rows), tag


def test_the_example_spec_makes_a_trace() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS, flags=re.DOTALL)
    spec = next(found for found in map(yaml.safe_load, blocks) if "num_requests" in found)
    assert len(generate(spec)) == 2000
