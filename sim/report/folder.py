"""Run folder: a finished run on disk (design.md section 9), written whole or not at all, and read back.

Owns the layout and the care taken; the CSV dialect is in csvfile.py. Plots are drawn into plots/
afterwards, by sim.report.plots, since they can be redrawn from the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from sim.core.errors import UserError
from sim.report.csvfile import read_csv, write_csv
from sim.report.frames import ITERATION_FRAME_COLUMNS, REQUEST_COLUMNS, TBT_COLUMNS
from sim.report.view import RunView

FORMATS = ("csv", "parquet")
TABLES: Mapping[str, Sequence[str]] = {
    "requests": REQUEST_COLUMNS,
    "iterations": ITERATION_FRAME_COLUMNS,
    "tbt": TBT_COLUMNS,
}
"""Tables of a run folder and their columns; each is TABLE.csv or TABLE.parquet."""

OWN_NAMES = frozenset(
    ["config.yaml", "summary.json", "plots", *(f"{name}.{kind}" for name in TABLES for kind in FORMATS)]
)
"""What a new run replaces in an old run's folder; anything else found there is kept."""


def check_target(directory: str | Path) -> None:
    """Raise UserError unless write_run could write `directory`; call it before simulating."""
    target = Path(directory).resolve()
    if target.is_dir():
        _check_replaceable(target)
    ancestor = next(path for path in (target, *target.parents) if path.exists())
    if not ancestor.is_dir():
        raise UserError(f"output.dir: cannot write {directory}: {ancestor} is a file, not a folder")
    writable_at = target.parent if ancestor == target else ancestor
    if not os.access(writable_at, os.W_OK | os.X_OK):
        raise UserError(f"output.dir: cannot write {directory}: no permission to write in {writable_at}")


def write_run(view: RunView, directory: str | Path, *, file_format: str = "csv") -> Path:
    """Write `view` as the run folder `directory`; an older run there is replaced in one step.

    Raises UserError if the folder cannot be written or holds something that is not a run; what was
    there is then untouched.
    """
    target = Path(directory).resolve()
    check_target(directory)
    try:
        with _replacing(target) as fresh:
            _write_files(view, fresh, file_format)
    except OSError as error:
        raise UserError(f"output.dir: cannot write {directory}: {error.strerror or error}") from error
    return target


def load_run(directory: str | Path, *, name: str | None = None) -> RunView:
    """Read a run folder back. UserError if it is not one, naming what is missing or broken."""
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run folder")
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8")) or {}
    except FileNotFoundError as error:
        raise UserError(f"{folder}: not a run folder: {Path(error.filename).name} is missing") from error
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"{folder}: not a run folder: {error}") from error
    label = name or summary.get("provenance", {}).get("policy") or folder.name
    tables = {table: _read_table(folder, table) for table in TABLES}
    return RunView(label, config, summary, **tables)


def _check_replaceable(target: Path) -> None:
    if any(target.iterdir()) and not (target / "summary.json").is_file():
        raise UserError(
            f"output.dir: {target} holds something that is not a run (no summary.json); "
            "choose a new or empty folder"
        )


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` that takes its place if the block succeeds, else vanishes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    fresh, old = scratch / "new", scratch / "old"
    try:
        fresh.mkdir()
        yield fresh
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
        _keep_foreign(old, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _keep_foreign(old: Path, target: Path) -> None:
    if old.exists():
        for path in sorted(old.iterdir()):
            if path.name not in OWN_NAMES:
                path.rename(target / path.name)


def _write_files(view: RunView, folder: Path, file_format: str) -> None:
    config = yaml.safe_dump(dict(view.config), sort_keys=False, allow_unicode=True)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    summary = json.dumps(view.summary, indent=2, allow_nan=False, ensure_ascii=False)
    (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
    frames = {"requests": view.requests, "iterations": view.iterations, "tbt": view.tbt}
    for table, frame in frames.items():
        _write_table(frame, folder / f"{table}.{file_format}")


def _write_table(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        write_csv(frame, path)
        return
    try:
        frame.to_parquet(path, index=False)
    except ImportError as error:
        raise UserError(
            "output.format: parquet needs the package pyarrow: pip install 'llm-scheduler-sim[parquet]'"
        ) from error


def _read_table(folder: Path, table: str) -> pd.DataFrame:
    parquet = folder / f"{table}.parquet"
    if not parquet.exists():
        path = folder / f"{table}.csv"
        if not path.exists():
            raise UserError(f"{folder}: not a run folder: {path.name} is missing")
        return read_csv(path, TABLES[table])
    try:
        frame: Any = pd.read_parquet(parquet)
    except ImportError as error:
        raise UserError(f"{parquet}: reading parquet needs the package pyarrow") from error
    except (ValueError, OSError) as error:
        raise UserError(f"{parquet}: not a file of a run folder: {error}") from error
    return pd.DataFrame(frame[list(TABLES[table])])
