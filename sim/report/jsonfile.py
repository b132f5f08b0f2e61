"""Writing a JSON document, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.core.errors import UserError


def write_json(document: Mapping[str, Any], path: Path) -> Path:
    """Write `document`; UserError if the folder cannot be written. NaN is refused: missing is null."""
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return path
