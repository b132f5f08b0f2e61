"""Where the files that come with the package lie: configs/ and traces/."""

from __future__ import annotations

from pathlib import Path


def shipped_root() -> Path:
    """The folder that holds configs/ and traces/: inside an installed package, else the checkout."""
    installed = Path(__file__).parents[1] / "shipped"
    return installed if installed.is_dir() else Path(__file__).parents[2]
