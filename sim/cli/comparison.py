"""A comparison on disk: one run folder a policy and seed, comparison.csv that lists them, joint plots.

Used by `compare`, by `run` where the config has a `compare` section, and by `plot`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sim.api.comparison import Contender, Outcome, run_all, tidy_row
from sim.cli import INTERRUPTED
from sim.cli.console import draw, is_served, note, nothing_served, progress_bars, say, show
from sim.core.errors import UserError
from sim.report import folder
from sim.report.comparison_tables import comparison_of, verdict_lines
from sim.report.statistics import differences, means
from sim.report.view import RunView

TABLE = "comparison.csv"
MEANS = "means.csv"
DIFFERENCES = "differences.csv"

Placed = tuple[Contender, str]
"""A contender and its run folder, relative to the comparison's."""


def folder_name(contender: Contender, seeds: int) -> str:
    """A folder name for one contender of a comparison over `seeds` seeds."""
    name = re.sub(r"[^\w.=+-]+", "-", contender.label).strip("-.") or "policy"
    return name if seeds == 1 else f"{name}/seed-{contender.seed}"


def run_placed(
    placed: Sequence[Placed], directory: Path, *, plots: bool, baseline: str | None = None
) -> int:
    """Simulate, write every run folder as it finishes, then the tables and the plots; the exit code.

    Nothing is written before a request is served in one of them: ConfigError if none is in any.
    With several seeds every other policy is held against `baseline` (default: the first). Tables and
    plots are in the order of `placed`. Ctrl-C ends it early: what was finished is written and shown
    all the same.
    """
    for _, place in placed:
        folder.check_target(directory / place)
    # a run in the folder itself goes first, since it replaces the folder that holds the others
    order = sorted(range(len(placed)), key=lambda index: placed[index][1] != ".")
    finished: dict[int, Outcome] = {}
    unwritten: list[int] = []
    any_served = False
    with progress_bars() as start:
        runs = run_all([placed[index][0] for index in order], lambda contender: start(contender.label))
        for index, outcome in zip(order, runs, strict=True):
            finished[index] = outcome
            unwritten.append(index)
            any_served = any_served or is_served(outcome.result.view)
            while any_served and unwritten:
                ready = unwritten.pop(0)
                finished[ready].result.save(directory / placed[ready][1], plots=False)
            if outcome.result.interrupted:
                break
    if not any_served:
        first = finished[order[0]]
        raise nothing_served(first.result.view, first.contender.config)
    outcomes = [finished[index] for index in sorted(finished)]
    frame = pd.DataFrame([tidy_row(outcome) for outcome in outcomes])
    places = pd.DataFrame({"folder": [placed[index][1] for index in sorted(finished)]})
    _write_table(places.join(frame), directory / TABLE)
    views = _first_seed(outcomes)
    show(comparison_of(frame, _notices(outcomes)))
    if frame["seed"].nunique() > 1:
        _show_statistics(frame, baseline or outcomes[0].contender.label, directory)
    say(f"run folders: {directory}")
    if plots:
        draw(views, directory / "plots")
        draw_comparison(frame, directory / "plots")
    if any(outcome.result.interrupted for outcome in outcomes):
        note(f"interrupted; what was finished is in {directory}")
        return INTERRUPTED
    return 0


def _show_statistics(frame: pd.DataFrame, baseline: str, directory: Path) -> None:
    """Means and paired differences over the seeds: sentences to read, every metric to a file."""
    left_out = ("simulator.", "by_client.")  # timings, and what may be thousands of columns
    results = frame[[name for name in frame if not str(name).startswith(left_out)]]
    _write_table(means(results), directory / MEANS)
    _write_table(differences(results), directory / DIFFERENCES)
    show(verdict_lines(frame, baseline))


def _notices(outcomes: Sequence[Outcome]) -> list[str]:
    """Each notice once, whichever runs it came from."""
    notices = [notice for outcome in outcomes for notice in outcome.result.summary["notices"]]
    notices += [outcome.no_bounds for outcome in outcomes if outcome.no_bounds is not None]
    return list(dict.fromkeys(notices))


def _first_seed(outcomes: Sequence[Outcome]) -> list[RunView]:
    """One run a policy: of the first seed, as plots show one run each."""
    first = outcomes[0].contender.seed
    return [outcome.result.view for outcome in outcomes if outcome.contender.seed == first]


def draw_comparison(frame: pd.DataFrame, directory: Path) -> None:
    """The plot of the comparison itself, where there is more than one policy; says where it is."""
    if frame["policy"].nunique() > 1:
        from sim.report.plots import comparison_dots
        from sim.report.plots.figure import save

        say(f"plot: {save(comparison_dots(frame), directory / 'comparison.png')}")


def comparison_frame(directory: Path) -> pd.DataFrame | None:
    """The table of a comparison's folder; None in any other folder."""
    table = directory / TABLE
    if not table.is_file():
        return None
    try:
        frame = pd.read_csv(table, dtype={"policy": str, "folder": str})
        return frame.astype({"policy": str, "folder": str, "seed": int})
    except (ValueError, KeyError) as error:
        raise UserError(f"{table}: not a comparison's table: {error}") from None


def comparison_views(directory: Path) -> list[RunView]:
    """The runs of a comparison's folder (the first seed of each policy), or the one run of a run folder."""
    frame = comparison_frame(directory)
    if frame is None:
        return [folder.load_run(directory)]
    firsts = frame.drop_duplicates("policy")[["folder", "policy"]]
    return [folder.load_run(directory / place, name=label) for place, label in firsts.values.tolist()]


def _write_table(frame: pd.DataFrame, path: Path) -> None:
    scratch = path.with_name(f".{path.name}.new")
    frame.to_csv(scratch, index=False)
    os.replace(scratch, path)
