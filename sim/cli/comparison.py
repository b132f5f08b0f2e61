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
from sim.api.result import Result
from sim.cli import INTERRUPTED
from sim.cli.console import draw, note, progress_bars, require_served, say, show
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

    Table and plots are in the order of `placed`. Ctrl-C ends it early: what was finished is written
    and shown all the same.
    """
    for _, place in placed:
        folder.check_target(directory / place)
    # a run in the folder itself goes first, since it replaces the folder that holds the others
    order = sorted(range(len(placed)), key=lambda index: placed[index][1] != ".")
    finished: dict[int, Result] = {}
    with progress_bars() as start:
        runs = run_all([placed[index][0] for index in order], lambda contender: start(contender.label))
        for index, (_, result) in zip(order, runs, strict=True):
            finished[index] = result
            result.save(directory / placed[index][1], plots=False)
            if result.interrupted:
                break
    rows = [{"folder": placed[i][1], **tidy_row(placed[i][0], finished[i])} for i in sorted(finished)]
    _write_table(pd.DataFrame(rows), directory / TABLE)
    views = _first_seed([(placed[i][0], finished[i].view) for i in sorted(finished)])
    show(comparison_table(views))
    say(f"run folders: {directory}")
    require_served(views)
    if plots:
        draw(views, directory / "plots")
    if any(result.interrupted for result in finished.values()):
        note(f"interrupted; what was finished is in {directory}")
        return INTERRUPTED
    return 0


def _first_seed(runs: Sequence[tuple[Contender, RunView]]) -> list[RunView]:
    """One run a policy: of the first seed, as tables and plots show one run each."""
    first = runs[0][0].seed
    return [view for contender, view in runs if contender.seed == first]


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
