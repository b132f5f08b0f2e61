"""fetch_trace: a public trace from the network into a local cache, resumed and checked.

Owns the transfer and its errors; pooch keeps the cache and compares checksums. Nothing is in the
cache under its own name before its checksum was right.
"""

from __future__ import annotations

import importlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sim.core.errors import ConfigError, TraceError, suggestion
from sim.trace.catalogue import CATALOGUE, PublicTrace

CACHE_VARIABLE = "SIM_CACHE"
"""Environment variable that moves the cache."""
BLOCK_BYTES = 1 << 18
TIMEOUT_S = 30.0
RANGE_NOT_SATISFIABLE = 416

Progress = Callable[[int, int], None]
"""Called with bytes so far and bytes in all (0 if the server does not say)."""


def cache_dir() -> Path:
    """Where downloads are kept: $SIM_CACHE, else the system's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path(_pooch().os_cache("llm-scheduler-sim"))


def fetch_trace(name: str, folder: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The local file of public trace `name`, downloaded if it is not in `folder` (default: the cache).

    A transfer that was cut goes on where it stopped. ConfigError for an unknown name; TraceError
    when offline, for an error of the server, for a transfer cut short, and for a wrong checksum.
    """
    if name not in CATALOGUE:
        raise ConfigError(f"unknown public trace {name!r}: {suggestion(name, CATALOGUE)}")
    return fetch_file(CATALOGUE[name], Path(folder) if folder else cache_dir(), progress)


def fetch_file(trace: PublicTrace, folder: Path, progress: Progress | None = None) -> Path:
    """As fetch_trace, for an entry of any catalogue."""
    part = folder / f"{trace.file_name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = _pooch().retrieve(
            trace.url,
            known_hash=f"sha256:{trace.sha256}",
            fname=trace.file_name,
            path=folder,
            downloader=_Download(part, progress),
        )
    except ValueError as error:
        raise TraceError(
            f"{trace.url}: the file received is not the one expected (SHA-256 differs from "
            f"{trace.sha256}); it was discarded. Try again; if it persists, the file has changed"
        ) from error
    except OSError as error:
        raise TraceError(f"cannot write to {folder}: {error.strerror or error}") from None
    return Path(found)


def _pooch() -> Any:
    try:
        pooch = importlib.import_module("pooch")
    except ImportError:
        raise TraceError("downloading traces needs pooch: pip install pooch (extra `traces`)") from None
    pooch.get_logger().setLevel("WARNING")
    return pooch


@dataclass(frozen=True)
class _Download:
    """A downloader for pooch that keeps what it got in `part`, to go on from there next time."""

    part: Path
    progress: Progress | None

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Get `url` whole into `output_file`."""
        try:
            self._transfer(url)
        except urllib.error.HTTPError as error:
            raise TraceError(f"{url}: the server answered {error.code} {error.reason}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise TraceError(
                f"{url}: cannot be reached ({reason}). Offline? Download it elsewhere and put it at "
                f"{self.part.with_suffix('')}, or set trace.path to where it is"
            ) from None
        os.replace(self.part, output_file)

    def _transfer(self, url: str) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        try:
            response = self._open(url, have)
        except urllib.error.HTTPError as error:
            if error.code != RANGE_NOT_SATISFIABLE:
                raise
            # The part is as long as the file or longer: begin again, the checksum decides.
            response, have = self._open(url, 0), 0
        with response:
            if response.status != 206:
                have = 0
            total = have + int(response.headers.get("Content-Length") or 0)
            with self.part.open("ab" if have else "wb") as file:
                have = self._copy(response, file, have, total)
        if have < total:
            raise TraceError(
                f"{url}: the connection was cut after {have:,} of {total:,} bytes; "
                "run the command again to go on from there"
            )

    def _open(self, url: str, have: int) -> Any:
        headers = {"Range": f"bytes={have}-"} if have else {}
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)

    def _copy(self, response: Any, file: Any, have: int, total: int) -> int:
        """Copy until the end or until the connection is cut; the bytes there are then."""
        while True:
            try:
                block = response.read(BLOCK_BYTES)
            except (HTTPException, ConnectionError, TimeoutError):
                return have
            if not block:
                return have
            file.write(block)
            have += len(block)
            if self.progress:
                self.progress(have, total)
