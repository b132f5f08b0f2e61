"""TraceSource: a trace file opened as text, whatever its compression, and a first look at it.

Owns paths, gzip and zstandard, and the head that formats are recognised by; leaves parsing to the
formats.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

from sim.core.errors import TraceError

GZIP_MAGIC, ZSTD_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class TraceSource:
    """A trace file. Opening it again starts from its beginning."""

    path: Path

    def open_bytes(self) -> IO[bytes]:
        """The file's content, decompressed. TraceError if it cannot be read."""
        try:
            with self.path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise TraceError(f"cannot read trace {self.path}: {error.strerror or error}") from None
        if magic.startswith(GZIP_MAGIC):
            import gzip

            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        if magic.startswith(ZSTD_MAGIC):
            return _open_zstd(self.path)
        return self.path.open("rb")

    def open_text(self) -> io.TextIOWrapper:
        """The content as UTF-8 text, with a byte order mark skipped and line ends untouched."""
        return io.TextIOWrapper(self.open_bytes(), encoding="utf-8-sig", errors="replace", newline="")

    @cached_property
    def head(self) -> str:
        """The first megabyte of text."""
        with self.open_bytes() as file:
            data = file.read(HEAD_BYTES)
        return data.decode("utf-8-sig", errors="replace")

    @cached_property
    def is_parquet(self) -> bool:
        """Whether the file is in Apache Parquet."""
        with self.open_bytes() as file:
            return file.read(4) == PARQUET_MAGIC

    @cached_property
    def first_line(self) -> str:
        """The first line that is neither empty nor a `#` comment."""
        lines = (line.strip() for line in self.head.splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The column names if this is a CSV file with a header; () otherwise."""
        if self.is_parquet or self.first_line[:1] in ("{", "[", ""):
            return ()
        return tuple(name.strip() for name in next(csv.reader([self.first_line])))

    @cached_property
    def first_object(self) -> dict[str, Any] | None:
        """The first JSON object if this is JSON lines with one object a line; None otherwise."""
        if not self.first_line.startswith("{"):
            return None
        try:
            value = json.loads(self.first_line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    @cached_property
    def whole_json(self) -> Any:
        """The parsed content if the file is one JSON document; None if it is not JSON."""
        if self.is_parquet or self.first_line[:1] not in ("{", "["):
            return None
        try:
            with self.open_text() as file:
                return json.load(file, parse_float=str)
        except ValueError:
            return None


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """A file that cannot be read to its end, or not be decompressed, is a TraceError."""
    damage: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    with contextlib.suppress(ImportError):
        import zstandard

        damage = (*damage, zstandard.ZstdError)
    try:
        yield
    except damage as error:
        raise TraceError(f"cannot read trace {path}: {error}") from None


def _open_zstd(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise TraceError(
            f"{path} is compressed with zstandard: pip install zstandard (extra `traces`), or decompress it"
        ) from None
    return cast("IO[bytes]", zstandard.open(path, "rb"))
