"""An outcome as a folder: findings as CSV and Markdown, tables behind them, figures, runs and their plots."""

from __future__ import annotations

import os
from pathlib import Path

from sim.core.errors import UserError
from sim.reproduce.outcome import Outcome


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
    _write(outcome.findings_frame().to_csv(index=False), directory / "findings.csv")
    _write(findings_markdown(outcome), directory / "findings.md")
    for name, table in outcome.tables.items():
        _write(table.to_csv(index=False), directory / f"{name}.csv")
    written = [save(figure, directory / f"{name}.png") for name, figure in outcome.figures.items()]
    for result in outcome.runs:
        result.save(directory / "runs" / result.name.replace(" ", "-"), plots=False)
    if outcome.runs:
        draw_all([result.view for result in outcome.runs], directory / "plots")
    return written


def findings_markdown(outcome: Outcome) -> str:
    """The findings as a Markdown table, as docs/reproductions.md has them."""
    lines = ["| | paper | ours [95 %] |", "|---|---|---|"]
    lines += [f"| {f.quantity} | {f.paper or '-'} | {f.ours_text} |" for f in outcome.findings]
    return "\n".join(lines) + "\n"


def _write(text: str, path: Path) -> None:
    scratch = path.with_name(f".{path.name}.new")
    try:
        scratch.write_text(text, encoding="utf-8")
        os.replace(scratch, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
