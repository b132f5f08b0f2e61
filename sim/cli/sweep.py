"""`sweep CONFIG --grid KEY=V1,V2 ...`: a grid of configs over many processes, resumable; one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sim.cli import INTERRUPTED
from sim.cli.console import note, say, show
from sim.cli.options import add_config_arguments, add_out_argument, config_of
from sim.core.errors import ConfigError
from sim.sweeps.backends import BACKENDS
from sim.sweeps.grid import parse_axis
from sim.sweeps.runner import Progress, SweepResult, run_sweep

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_ROWS = 40
SHOWN_NOTICES = 5
HEADLINES = (
    ("ttft_s.p50", "TTFT p50"),
    ("ttft_s.p99", "TTFT p99"),
    ("tbt_s.p99", "TBT p99"),
    ("throughput.requests_per_s", "requests/s"),
    ("slo_attainment", "SLO attainment"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument(
        "--grid",
        metavar="KEY=V1,V2,...",
        action="append",
        default=[],
        help="values of a config key, e.g. policy.token_budget=256,512; may be repeated: all combinations",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="seeds, from the config's on (default: 1)"
    )
    parser.add_argument(
        "--backend",
        default="loky",
        metavar="|".join(BACKENDS),
        help="who runs the cells (default: loky, processes of this machine)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one a core)")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="a Dask scheduler or Ray head that is there already"
    )
    parser.add_argument("--restart", action="store_true", help="discard what the folder holds of a sweep")
    parser.add_argument("--retry-failed", action="store_true", help="run cells again that failed before")
    add_out_argument(parser, "the config's output folder with -sweep behind it")


def main(arguments: argparse.Namespace) -> int:
    config = config_of(arguments)
    with progress_bar() as progress:
        result = run_sweep(
            config,
            _grid(arguments.grid),
            arguments.seeds,
            backend=arguments.backend,
            workers=arguments.workers,
            address=arguments.address,
            out=arguments.out or f"{config.output_dir}-sweep",
            restart=arguments.restart,
            retry_failed=arguments.retry_failed,
            progress=progress,
        )
    return _report(result)


def _grid(axes: list[str]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for text in axes:
        key, values = parse_axis(text)
        if key in grid:
            raise ConfigError(f"--grid {text}: {key} is there twice; list all its values in one --grid")
        grid[key] = values
    return grid


def _report(result: SweepResult) -> int:
    """Show the table's head, where it is, and what failed; the exit code."""
    if len(result.frame):
        show(_table(result))
    say(f"table: {result.table} ({len(result.outcomes)} of {len(result.cells)} cells)")
    notices = dict.fromkeys(text for outcome in result.outcomes.values() for text in outcome.notices)
    for text in list(notices)[:SHOWN_NOTICES]:
        note(f"note: {text}")
    if len(notices) > SHOWN_NOTICES:
        note(f"note: and {len(notices) - SHOWN_NOTICES} more like these")
    failed = result.failed
    if failed:
        first = failed[0]
        where = ", ".join(f"{key}={value}" for key, value in {**first.point, "seed": first.seed}.items())
        error = result.outcomes[first.index].error
        note(f"{len(failed)} of {len(result.outcomes)} cells failed; the first, {where}: {error}")
    if result.interrupted:
        note("interrupted; the same command goes on from here")
        return INTERRUPTED
    return 1 if len(failed) == len(result.cells) else 0


def _table(result: SweepResult) -> Table:
    from pandas import isna
    from rich.table import Table

    from sim.report.limits import metric_value

    axes = [*result.cells[0].point, "seed"]
    there = result.frame.dropna(axis="columns", how="all").columns
    columns = [(name, title) for name, title in HEADLINES if name in there]
    table = Table(*axes, *(title for _, title in columns))
    shown = result.frame.head(SHOWN_ROWS)
    for _, row in shown.iterrows():
        cells = [metric_value(name, None if isna(row[name]) else float(row[name])) for name, _ in columns]
        table.add_row(*(str(row[axis]) for axis in axes), *cells)
    if len(result.frame) > SHOWN_ROWS:
        table.caption = f"the first {SHOWN_ROWS} of {len(result.frame)} rows"
    return table


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """The callback of a bar with the time left; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("sweep"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[state]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("ETA"),
        rich.TimeRemainingColumn(),
    )
    # a cell may take minutes: the speed is that of the whole sweep, not of the last half minute
    with rich.Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=float("inf")
    ) as bars:
        task = bars.add_task("sweep", total=None, start=False, state="starting")

        def update(done: int, total: int) -> None:
            if not bars.tasks[task].started:
                # cells that were finished before say nothing of the speed
                bars.reset(task, total=total, completed=done)
            bars.update(task, completed=done, state=f"{done}/{total} cells")

        yield update
