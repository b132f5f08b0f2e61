"""What commands show: tables on stdout, progress and notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.core.errors import ConfigError

if TYPE_CHECKING:
    from sim.config import Config
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
        rich.TextColumn("{task.fields[state]}"),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def start(label: str) -> Progress:
            task = bars.add_task(label, total=None, state="starting")
            return lambda done, total: bars.update(
                task, completed=done, total=total, state=f"{done:,}/{total:,} requests"
            )

        yield start


def draw(views: Sequence[RunView], directory: Path) -> None:
    """Draw every plot of `views`, together, as PNG files in `directory`, and say where."""
    from sim.report.plots import draw_all

    paths = draw_all(list(views), directory)
    say("plots: " + ", ".join(str(path) for path in paths))


def is_served(view: RunView) -> bool:
    """Whether the replica took in any request at all."""
    return bool(view.summary["num_rejected"] < view.summary["num_requests"])


def nothing_served(view: RunView, config: Config) -> ConfigError:
    """The error of a run that rejected every request, at the key that made it: it cannot be meant."""
    first = view.requests.iloc[0]
    limit = config.replica.max_model_len
    too_long = limit is not None and first["prompt_tokens"] + first["output_tokens"] > limit
    return config.source.error(
        "replica.max_model_len" if too_long else "kv_cache.num_blocks",
        f"no request can be served: all {len(view.requests)} were rejected; "
        f"request {first['request_id']}: {first['reason']}",
    )
