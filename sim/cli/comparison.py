"""A comparison on disk: one run folder a policy and seed, comparison.csv that lists them, joint plots.

Used by `compare`, by `run` where the config has a `compare` section, and by `plot`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sim.api.comparison import Contender, run_all, tidy_row
from sim.cli import INTERRUPTED
from sim.cli.console import draw, note, progress_bars, say, show
from sim.core.errors import UserError
from sim.report import folder
from sim.report.tables import comparison_table
from sim.report.view import RunView

TABLE = "comparison.csv"

Placed = tuple[Contender, str]
"""A contender and its run folder, relative to the comparison's."""


def folder_name(contender: Contender, seeds: int) -> str:
    """A folder name for one contender of a comparison over `seeds` seeds."""
    name = re.sub(r"[^\w.=+-]+", "-", contender.label).strip("-.") or "policy"
    return name if seeds == 1 else f"{name}/seed-{contender.seed}"


def run_placed(placed: Sequence[Placed], directory: Path, *, plots: bool) -> int:
    """Simulate, write every run folder as it finishes, then the table and the plots; the exit code.

    Ctrl-C ends it early: what was finished is written and shown all the same.
    """
    for _, place in placed:
        folder.check_target(directory / place)
    rows, views, interrupted = [], [], False
    with progress_bars() as start:
        runs = run_all([contender for contender, _ in placed], lambda c: start(c.label))
        for (contender, result), (_, place) in zip(runs, placed, strict=True):
            result.save(directory / place, plots=False)
            rows.append({"folder": place, **tidy_row(contender, result)})
            views.append(result.view)
            interrupted = result.interrupted
            if interrupted:
                break
    _write_table(pd.DataFrame(rows), directory / TABLE)
    show(comparison_table(views))
    say(f"run folders: {directory}")
    if plots:
        draw(views, directory / "plots")
    if interrupted:
        note(f"interrupted; what was finished is in {directory}")
    return INTERRUPTED if interrupted else 0


def comparison_views(directory: Path) -> list[RunView]:
    """The runs of a comparison's folder (the first seed of each policy), or the one run of a run folder."""
    table = directory / TABLE
    if not table.is_file():
        return [folder.load_run(directory)]
    try:
        rows = pd.read_csv(table, dtype={"policy": str, "folder": str})
        firsts = rows.drop_duplicates("policy")[["folder", "policy"]]
    except (ValueError, KeyError) as error:
        raise UserError(f"{table}: not a comparison's table: {error}") from None
    return [folder.load_run(directory / place, name=label) for place, label in firsts.values.tolist()]


def _write_table(frame: pd.DataFrame, path: Path) -> None:
    scratch = path.with_name(f".{path.name}.new")
    frame.to_csv(scratch, index=False)
    os.replace(scratch, path)
