"""An outcome as a folder: findings.csv, the tables behind them, figures, and the runs with their plots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sim.core.errors import UserError
from sim.reproduce.outcome import Outcome

if TYPE_CHECKING:
    import pandas as pd


def save_outcome(outcome: Outcome, directory: Path) -> list[Path]:
    """Write `outcome` into `directory`; the figures' paths. UserError if the folder cannot be written.

    Runs go to runs/<name> as run folders that `python -m sim plot` redraws, their joint plots to plots/.
    """
    from sim.report.plots import draw_all
    from sim.report.plots.figure import save

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {directory}: {error.strerror or error}") from error
    _write(outcome.findings_frame(), directory / "findings.csv")
    for name, table in outcome.tables.items():
        _write(table, directory / f"{name}.csv")
    written = [save(figure, directory / f"{name}.png") for name, figure in outcome.figures.items()]
    for result in outcome.runs:
        result.save(directory / "runs" / result.name.replace(" ", "-"), plots=False)
    if outcome.runs:
        draw_all([result.view for result in outcome.runs], directory / "plots")
    return written


def _write(frame: pd.DataFrame, path: Path) -> None:
    scratch = path.with_name(f".{path.name}.new")
    try:
        frame.to_csv(scratch, index=False)
        os.replace(scratch, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
