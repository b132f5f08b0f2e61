"""Imports go one way: the contracts of pyproject.toml hold (design: layers)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_layer_contracts_hold(root: Path) -> None:
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
