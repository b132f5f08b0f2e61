"""rerun: simulate a finished run once more, this time writing its events down.

A run folder holds no events: runs are deterministic, so simulating again from the saved config gives
the same run, and costs its few seconds only when somebody asks why. What may have changed meanwhile
(the trace, a policy's file, the simulator) is checked against what the run saved, and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sim.api.inputs import build_inputs
from sim.api.settings import Progress
from sim.api.simulation import measure_with, was_interrupted
from sim.config import Config
from sim.core.record import RunRecord

_NOT_RESULTS = ("provenance", "notices", "simulator")


@dataclass(frozen=True)
class Rerun:
    """A run simulated again."""

    record: RunRecord
    """With events."""
    notices: tuple[str, ...]
    """How it differs from the run as it was saved; empty if it is the same, as it should be."""


def rerun(config: Config, saved: Mapping[str, Any], progress: Progress | None = None) -> Rerun:
    """Simulate `config`, which made the summary `saved`, and compare. UserError if an input is gone."""
    inputs = build_inputs(config)
    record, _, summary = measure_with(config, inputs, progress=progress, record_events=True)
    if was_interrupted(record):
        raise KeyboardInterrupt
    return Rerun(record, tuple(_differences(saved, summary)))


def _differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = saved.get("provenance", {}), now["provenance"]
    for key, what in (("trace_sha256", "the trace"), ("policy_file_sha256", "the policy's file")):
        if before.get(key) != after[key]:
            yield f"{what} is not the one that the run was made from (its SHA-256 differs)"
    if before.get("version") != after["version"]:
        made_by = before.get("version")
        yield f"the run was made by version {made_by} of the simulator, this is {after['version']}"
    if any(notice.startswith("interrupted") for notice in saved.get("notices", ())):
        yield "the run was interrupted; here it is simulated to its end"
        return
    changed = [key for key in now if key not in _NOT_RESULTS and saved.get(key) != now[key]]
    if changed:
        yield f"the saved results differ from this simulation in {', '.join(changed)}"
