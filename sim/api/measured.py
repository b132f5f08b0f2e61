"""MeasuredRun: a folder of what a real engine did (docs/run-format.md), read and checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sim.core.errors import TraceError, suggestion
from sim.core.trace import Trace
from sim.core.units import NS_PER_S

NEEDED_SETTINGS = ("model", "max_num_seqs", "max_num_batched_tokens")
NEEDED_COLUMNS = (
    "request_id", "arrival_s", "prompt_tokens", "output_tokens", "first_token_s", "last_token_s",
)  # fmt: skip
CLOCKS_S = 1e-3
"""How far apart a client's and an engine's clock may be."""
TIMESERIES_COLUMNS = ("t", "running", "waiting")
ASYNC_BY_DEFAULT_SINCE = (0, 14)
"""vLLM plans ahead by default from this version on."""


@dataclass(frozen=True)
class MeasuredRun:
    """Settings of the engine, and one row a request: lengths and times, in seconds from the first arrival."""

    folder: Path
    settings: dict[str, Any]
    requests: pd.DataFrame
    prefix_hashes: list[tuple[int, ...]] | None
    timeseries: pd.DataFrame | None

    def seconds(self, column: str) -> NDArray[np.float64]:
        """A column of times; NaN where it is unknown."""
        if column not in self.requests:
            return np.full(len(self.requests), np.nan)
        return self.requests[column].to_numpy(dtype=np.float64)

    def tokens(self, column: str) -> NDArray[np.int64]:
        """prompt_tokens or output_tokens."""
        return self.requests[column].to_numpy(dtype=np.int64)

    @property
    def block_size(self) -> int:
        """Tokens of a KV block, and of a prefix hash."""
        return int(self.settings.get("block_size") or 16)

    @property
    def async_scheduling(self) -> bool:
        """As run.json says, else what the engine's version does by default."""
        said = self.settings.get("async_scheduling")
        if said is not None:
            return bool(said)
        version = str(self.settings.get("engine_version") or "0").split(".")
        numbers = tuple(int(part) for part in version[:2] if part.isdigit())
        return numbers >= ASYNC_BY_DEFAULT_SINCE

    def trace(self) -> Trace:
        """What was sent: the measured arrivals and lengths, with prefixes where they are known."""
        return Trace(
            name=self.folder.name,
            arrival_ns=np.rint(self.seconds("arrival_s") * NS_PER_S).astype(np.int64),
            prompt_tokens=self.tokens("prompt_tokens"),
            output_tokens=self.tokens("output_tokens"),
            request_ids=[str(name) for name in self.requests["request_id"]],
            prefix_hashes=self.prefix_hashes,
            hash_block_tokens=None if self.prefix_hashes is None else self.block_size,
        )


def read_measured(folder: str | Path) -> MeasuredRun:
    """Read a run folder; TraceError that names the file, row and column that is wrong or missing."""
    path = Path(folder)
    if not path.is_dir():
        raise TraceError(f"no such run folder: {folder} (docs/run-format.md says what it holds)")
    settings = _settings(path / "run.json")
    requests = _requests(path / "requests.csv")
    block_size = int(settings.get("block_size") or 16)
    hashes = _hashes(path / "trace.jsonl", requests, block_size)
    series = path / "timeseries.csv"
    return MeasuredRun(path, settings, requests, hashes, _timeseries(series) if series.is_file() else None)


def _settings(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise TraceError(f"{path}: not JSON: {error}") from None
    for key in NEEDED_SETTINGS:
        if not isinstance(settings, dict) or settings.get(key) is None:
            raise TraceError(f"{path}: {key} is missing; needed: {', '.join(NEEDED_SETTINGS)}")
    if (settings.get("data_parallel_size") or 1) != 1:
        replicas = settings["data_parallel_size"]
        raise TraceError(f"{path}: data_parallel_size {replicas}: only 1 can be replayed")
    if (settings.get("engine") or "vllm") != "vllm":
        raise TraceError(f"{path}: engine {settings['engine']!r}: {suggestion(settings['engine'], ['vllm'])}")
    return dict(settings)


def read_table(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV file that has `columns`, of which `numbers` are finite numbers; TraceError says what is not."""
    try:
        frame = pd.read_csv(path, dtype={"request_id": str})
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise TraceError(f"{path}: not a CSV table: {str(error).strip()}") from None
    for column in columns:
        if column not in frame:
            raise TraceError(f"{path}: no column {column!r}: {suggestion(column, map(str, frame.columns))}")
    if frame.empty:
        raise TraceError(f"{path}: no rows below the header")
    for column in numbers:
        values = pd.to_numeric(frame[column], errors="coerce")
        _refuse(path, frame[column], ~np.isfinite(values), "must be a number")
        frame[column] = values
    return frame


def _timeseries(path: Path) -> pd.DataFrame:
    return read_table(path, TIMESERIES_COLUMNS, TIMESERIES_COLUMNS)


def _requests(path: Path) -> pd.DataFrame:
    frame = read_table(path, NEEDED_COLUMNS, NEEDED_COLUMNS[1:])
    _refuse(path, frame["request_id"], frame["request_id"].duplicated(), "is there twice")
    for column in ("prompt_tokens", "output_tokens"):
        odd = (frame[column] < 1) | (frame[column] % 1 != 0)
        _refuse(path, frame[column], odd, "must be an integer >= 1")
    times = frame["arrival_s"]
    _refuse(path, times, (times.diff() < 0) | (times < 0), "must not go back in time, nor be below 0")
    first, last = frame["first_token_s"], frame["last_token_s"]
    _refuse(path, first, first < times, "is before arrival_s")
    _refuse(path, last, last < first, "is before first_token_s")
    if "queued_s" in frame:
        frame["queued_s"] = _queued(path, frame)
    return frame


def _queued(path: Path, requests: pd.DataFrame) -> pd.Series[float]:
    """When the engine took each request in; NaN where that is unknown."""
    given = requests["queued_s"]
    queued = pd.to_numeric(given, errors="coerce")
    _refuse(path, given, given.notna() & ~np.isfinite(queued), "must be a number or empty")
    outside = (queued < requests["arrival_s"] - CLOCKS_S) | (queued > requests["first_token_s"])
    _refuse(path, given, outside, "is not between arrival_s and first_token_s")
    return queued


def _refuse(path: Path, column: pd.Series[Any], bad: pd.Series[bool], problem: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise TraceError(f"{path}:{row + 2}: {column.name} {column.iloc[row]} {problem}")


def _hashes(path: Path, requests: pd.DataFrame, block_size: int) -> list[tuple[int, ...]] | None:
    """The full-block prefix hashes of every request; None if the file or its hashes are absent."""
    if not path.is_file():
        return None
    hashes = []
    for row, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        try:
            sent = json.loads(line)
            length, ids = int(sent["input_length"]), sent.get("hash_ids")
        except (ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{path}:{row + 1}: not an object with input_length: {error!r}") from None
        if row >= len(requests) or length != requests["prompt_tokens"].iloc[row]:
            raise TraceError(f"{path}:{row + 1}: input_length {length} is not that row's in requests.csv")
        if ids is None:
            return None
        hashes.append(tuple(ids[: length // block_size]))
    if len(hashes) != len(requests):
        raise TraceError(f"{path}: {len(hashes)} lines for {len(requests)} requests")
    return hashes
