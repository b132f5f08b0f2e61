"""What commands show: tables on stdout, progress and notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.core.errors import UserError

if TYPE_CHECKING:
    from sim.report.view import RunView

Progress = Callable[[int, int], None]

WIDTH_WITHOUT_TERMINAL = 200
"""Columns of a table that is written to a file or a pipe, where nothing need be cut."""


def show(renderable: Any) -> None:
    """Print a rich renderable to stdout."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    Console(width=None if terminal else WIDTH_WITHOUT_TERMINAL).print(renderable)


def say(text: str) -> None:
    """Print one line to stdout."""
    print(text)


def note(text: str) -> None:
    """Print one line to stderr, beside the results."""
    print(text, file=sys.stderr)


@contextmanager
def progress_bars() -> Iterator[Callable[[str], Progress | None]]:
    """A function from a label to that task's progress callback; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda label: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.completed}/{task.total} requests"),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def start(label: str) -> Progress:
            task = bars.add_task(label, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield start


def draw(views: Sequence[RunView], directory: Path) -> None:
    """Draw every plot of `views`, together, as PNG files in `directory`, and say where."""
    from sim.report.plots import draw_all

    paths = draw_all(list(views), directory)
    say("plots: " + ", ".join(str(path) for path in paths))


def require_served(views: Sequence[RunView]) -> None:
    """Raise UserError if no request was served in any of `views`: the config cannot be meant."""
    if any(view.summary["num_rejected"] < view.summary["num_requests"] for view in views):
        return
    view = views[0]
    first = view.requests.iloc[0]
    raise UserError(
        f"no request can be served: all {len(view.requests)} were rejected; "
        f"request {first['request_id']}: {first['reason']}"
    )
