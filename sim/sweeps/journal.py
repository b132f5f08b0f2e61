"""Journal: an append-only file of entries that a kill at any moment leaves readable.

A line is the SHA-256 of its text (16 hex digits), a space, and one JSON value. A line that is cut
off or does not match its checksum is as if it had never been written. Knows nothing of sweeps.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from sim.core.errors import UserError

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # on Windows, where two writers are not kept apart
    fcntl = None

SYNC_EVERY_S = 1.0
"""How much finished work a power cut may cost. A killed process costs none."""


class Journal:
    """The entries of a file, old ones first; open for appending, and locked against other writers."""

    def __init__(self, path: Path) -> None:
        """Open or create `path`; UserError if it cannot be written or another process writes it."""
        try:
            self._file = path.open("ab+")
        except OSError as error:
            raise UserError(f"{path}: cannot write: {error.strerror or error}") from None
        self._lock(path)
        self._synced_at = time.monotonic()
        self._file.seek(0)
        content = self._file.read()
        self.entries: list[Any] = []
        """What was in the file when it was opened."""
        whole = 0
        for end, entry in _entries(content):
            self.entries.append(entry)
            whole = end
        self.foreign = bool(content.strip()) and not self.entries and b"\n" in content
        """Whether the file is something else than a journal."""
        if whole < len(content) and not self.foreign:
            self._file.truncate(whole)

    def append(self, entry: Any) -> None:
        """Add one entry. It is there for the next reader once this returns."""
        text = json.dumps(entry, separators=(",", ":")).encode()
        try:
            self._file.write(_checksum(text) + b" " + text + b"\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self._file.name}: cannot write: {error.strerror or error}") from None
        if time.monotonic() - self._synced_at >= SYNC_EVERY_S:
            self._sync()

    def clear(self) -> None:
        """Forget everything."""
        self._file.truncate(0)
        self.entries, self.foreign = [], False

    def close(self) -> None:
        self._sync()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced_at = time.monotonic()

    def _lock(self, path: Path) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UserError(
                f"{path}: another sweep is writing it; wait for it or choose another folder"
            ) from None


def _entries(content: bytes) -> Iterator[tuple[int, Any]]:
    """Each whole entry and where its line ends."""
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        checksum, _, text = line[:-1].partition(b" ")
        if line.endswith(b"\n") and checksum == _checksum(text):
            yield end, json.loads(text)


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()
