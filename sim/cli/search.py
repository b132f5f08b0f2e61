"""What commands that try many configurations share: the policies asked for, a status line, tables to disk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sim.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def policies_of(arguments: argparse.Namespace) -> list[str] | None:
    """--policies, None if it was not given."""
    return arguments.policies.split(",") if arguments.policies is not None else None


@contextmanager
def searching() -> Iterator[Callable[[str], None]]:
    """A function that tells what was tried last: a moving line on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("simulating") as status:
        yield lambda text: status.update(text)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table whole or not at all; UserError if the folder cannot be written."""
    scratch = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(scratch, index=False)
        os.replace(scratch, path)
    except OSError as error:
        raise UserError(f"{path}: cannot write: {error.strerror or error}") from None
