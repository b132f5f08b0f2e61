"""Writing text files whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Write `text` beside `path`, then move it there in one step."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows under a header; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
