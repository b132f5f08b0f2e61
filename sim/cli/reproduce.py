"""`reproduce NAME|all`: redo published figures and tables, and show ours beside them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim.cli.console import note, say, show
from sim.core.errors import UserError, suggestion
from sim.reproduce.catalogue import REPRODUCTIONS


def configure(parser: argparse.ArgumentParser) -> None:
    listed = "; ".join(f"{name}: {what}" for name, what in REPRODUCTIONS.items())
    parser.add_argument("name", metavar="NAME", help=f"all, or one of them. {listed}")
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="runs/reproductions",
        help="one folder each in here (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="reduced size: to try it, not to quote")
    parser.add_argument(
        "--traces",
        metavar="DIR",
        help="folder with AzureLLMInferenceTrace_{conv,code}.csv, for phases (default: the shipped sample)",
    )


def main(arguments: argparse.Namespace) -> int:
    from sim.reproduce.catalogue import reproduce
    from sim.reproduce.saving import save_outcome

    allowed = [*REPRODUCTIONS, "all"]
    if arguments.name not in allowed:
        raise UserError(f"unknown reproduction {arguments.name!r}: {suggestion(arguments.name, allowed)}")
    for name in REPRODUCTIONS if arguments.name == "all" else [arguments.name]:
        note(f"{name}: {REPRODUCTIONS[name]}")
        with _status() as on_run:
            outcome = reproduce(name, quick=arguments.quick, traces=arguments.traces, on_run=on_run)
        directory = Path(arguments.out) / name
        figures = save_outcome(outcome, directory)
        show(_table(outcome, arguments.quick))
        for line in outcome.notes:
            say(f"note: {line}")
        say(f"folder: {directory}; figures: {', '.join(path.name for path in figures)}")
    return 0


@contextmanager
def _status() -> Iterator[Callable[[str], None] | None]:
    """A line that says what is being simulated; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(text)


def _table(outcome: Any, quick: bool) -> Any:
    from rich.table import Table

    title = f"{outcome.title}\n{outcome.source}" + ("\nreduced size" if quick else "")
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    table.add_column("paper", justify="right")
    table.add_column("ours [95 %]", justify="right")
    for finding in outcome.findings:
        table.add_row(finding.quantity, finding.paper or "-", finding.ours_text)
    return table
