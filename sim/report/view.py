"""RunView: a finished run as tables, plots and files see it, from memory or from a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from sim.core.record import RunRecord
from sim.report.frames import iterations_frame, requests_frame, tbt_frame


@dataclass(frozen=True)
class RunView:
    """One run. The frames are those of sim.report.frames; nobody changes them in place."""

    name: str
    """What legends and table heads call the run: as a rule its policy."""
    config: dict[str, Any]
    """The resolved config."""
    summary: dict[str, Any]
    """What sim.report.metrics.summarize returned."""
    requests: pd.DataFrame
    iterations: pd.DataFrame
    tbt: pd.DataFrame


def view_of(
    record: RunRecord, *, name: str, config: dict[str, Any], summary: dict[str, Any]
) -> RunView:
    """The view of a run in memory."""
    return RunView(
        name, config, summary, requests_frame(record), iterations_frame(record), tbt_frame(record)
    )


def distinct_names(views: Iterable[RunView]) -> list[RunView]:
    """The views with names that differ: equal ones get their config's name, then a number."""
    listed = list(views)
    names = [view.name for view in listed]
    if _repeat(names):
        names = [f"{view.name} ({view.config.get('name', 'run')})" for view in listed]
    if _repeat(names):
        names = [f"{name} #{place}" for place, name in enumerate(names, start=1)]
    return [replace(view, name=name) for view, name in zip(listed, names, strict=True)]


def _repeat(names: list[str]) -> bool:
    return any(number > 1 for number in Counter(names).values())
