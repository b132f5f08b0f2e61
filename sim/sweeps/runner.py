"""sweep: a config over a grid of values and seeds, resumable, to one tidy table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sim
from sim.api.load import ConfigLike, as_config
from sim.config import Config
from sim.sweeps.backends import check_backend, open_pool
from sim.sweeps.checks import check_names
from sim.sweeps.folder import SweepFolder
from sim.sweeps.grid import NO_ROW, Cell, Grid, expand, plain_values
from sim.sweeps.identity import Digests, class_digest, code_digest, digest_of, located, own_policy
from sim.sweeps.table import check_format, tidy_frame, write_table
from sim.sweeps.worker import Outcome, Task

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called with cells finished and cells in all, once at the start and after every cell."""


@dataclass(frozen=True)
class SweepResult:
    """A sweep that ended, by itself or by Ctrl-C."""

    frame: pd.DataFrame
    """One row a finished cell."""
    cells: Sequence[Cell]
    outcomes: dict[int, Outcome]
    table: Path | None
    """The file that `frame` was written to."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C left cells unfinished."""
        return len(self.outcomes) < len(self.cells)

    @property
    def failed(self) -> list[Cell]:
        """Cells whose row is an error."""
        errors = {index for index, outcome in self.outcomes.items() if outcome.error is not None}
        return [cell for cell in self.cells if cell.index in errors]


def sweep(
    config: ConfigLike,
    grid: Grid | None = None,
    seeds: int = 1,
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    out: str | Path | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run `config` (or the one in that file) with every combination of the grid's values and seeds.

    `grid` is dotted keys to lists of values, {"policy.token_budget": [256, 512]}; seeds go from
    config.seed on. One row a run; columns: the grid's keys, seed, every number of the summary by
    its path (`ttft_s.p99`), error (why a cell failed; the others go on). Rows are in the grid's
    order and the same on every `backend` (loky: processes of this machine; dask; ray) and number
    of `workers`.

    With a folder `out`, finished cells are kept there as they finish, a sweep killed at any moment
    goes on from them, and the table is written. Ctrl-C returns the rows finished by then, with
    `frame.attrs["interrupted"]` True. Raises UserError before anything runs for a key or value that
    is wrong, and for a folder that holds another sweep.
    """
    result = run_sweep(
        as_config(config), grid or {}, seeds, backend=backend, workers=workers, address=address, out=out,
        restart=restart, retry_failed=retry_failed, progress=progress,
    )
    result.frame.attrs["interrupted"] = result.interrupted
    return result.frame


def run_sweep(
    config: Config,
    grid: Grid,
    seeds: int,
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    out: str | Path | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """`sweep`, with all that became of the cells."""
    check_backend(backend, workers, address)
    check_format(config.output.format)
    grid = {key: plain_values(values) for key, values in grid.items()}
    cells = expand(config, grid, seeds)
    digests = Digests()
    tasks = [_task(cell, digests) for cell in cells]
    check_names(cells, tasks)
    folder: SweepFolder | nullcontext[None] = nullcontext()
    if out is not None:
        description = _description(config, grid, seeds, tasks, digests)
        folder = SweepFolder(Path(out), description, restart=restart, retry_failed=retry_failed)
    with folder as kept:
        outcomes = {} if kept is None else dict(kept.finished)
        waiting = [task for task in tasks if task.index not in outcomes]
        report = progress or (lambda done, total: None)
        report(len(outcomes), len(cells))
        try:
            for outcome in _run(waiting, backend, workers, address):
                if kept is not None:
                    kept.add(outcome)
                outcomes[outcome.index] = outcome
                report(len(outcomes), len(cells))
        except KeyboardInterrupt:
            pass  # what is finished is kept, and the result says that it is not all
        frame = tidy_frame(cells, outcomes)
        table = None if out is None else Path(out) / f"sweep.{config.output.format}"
        if table is not None:
            write_table(frame, table)
    return SweepResult(frame, cells, outcomes, table)


def _run(
    tasks: Sequence[Task], backend: str, workers: int | None, address: str | None
) -> Iterator[Outcome]:
    if tasks:
        with open_pool(backend, workers, address, cells=len(tasks)) as pool:
            yield from pool.run(tasks)


def _task(cell: Cell, digests: Digests) -> Task:
    config = located(cell.config)
    return Task(cell.index, config, digests.trace(config), digests.cost(config), own_policy(config))


def _description(
    config: Config, grid: Grid, seeds: int, tasks: Sequence[Task], digests: Digests
) -> dict[str, Any]:
    """What makes this sweep the one it is, in plain values."""
    base = {key: value for key, value in config.to_dict().items() if key not in NO_ROW}
    named = {path: digest for task in tasks for path, digest in digests.files(task.config).items()}
    files: dict[str, list[str]] = {}
    for path, digest in sorted(named.items()):
        files.setdefault(Path(path).name, []).append(digest)
    own = {task.policy for task in tasks if task.policy is not None}
    description = {
        "version": sim.__version__,
        "code": code_digest(),
        "config": base,
        "grid": grid,
        "order": list(grid),
        "seeds": seeds,
        "files": files,
        "policies": {cls.__name__: class_digest(cls) for cls in own},
        "cells": digest_of([digests.cell(task.config) for task in tasks]),
    }
    plain: dict[str, Any] = json.loads(json.dumps(description, default=str))
    return plain
