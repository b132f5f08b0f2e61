"""Trace: the requests of a run as numpy columns, however they were stored or made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from sim.core.request import Request

_PART_ROWS = 1 << 14


@dataclass(frozen=True)
class Trace:
    """Requests in (arrival, file row) order; every column has one entry a request.

    `arrival_ns` is int64, sorted, and starts at 0 (the first arrival is the origin).
    `prompt_tokens` and `output_tokens` are int64 >= 1. Optional columns are None when absent.
    `notices` are sentences for the user (rows were sorted, clipped ...); `dropped` counts rows left
    out, by reason.
    """

    name: str
    arrival_ns: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    request_ids: Sequence[str] | None = None
    priority: NDArray[np.int64] | None = None
    client: Sequence[str | None] | None = None
    slo_class: Sequence[str | None] | None = None
    session: NDArray[np.int64] | None = None
    """Session number; turns of one session in file order. Later turns arrive `think_ns` after the
    completion of the one before, whatever their `arrival_ns`."""
    think_ns: NDArray[np.int64] | None = None
    prefix_hashes: Sequence[tuple[int, ...]] | None = None
    hash_block_tokens: int | None = None
    """Tokens a hash in `prefix_hashes` stands for (Mooncake 512, vLLM 16)."""
    notices: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over times and lengths (and prefix hashes): equal traces, equal results."""
        digest = hashlib.sha256()
        for column in (self.arrival_ns, self.prompt_tokens, self.output_tokens):
            digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        for optional in (self.priority, self.session, self.think_ns):
            if optional is not None:
                digest.update(np.ascontiguousarray(optional, dtype="<i8").tobytes())
        for labels in (self.client, self.slo_class, self.prefix_hashes):
            if labels is not None:
                digest.update(repr(list(labels)).encode())
        return digest.hexdigest()

    def id_of(self, row: int) -> str:
        """The request's id: the file's own, else its row number."""
        return str(row) if self.request_ids is None else self.request_ids[row]

    def requests(self) -> Iterator[Request]:
        """The rows as Request objects, in trace order."""
        rows = len(self)
        return map(
            Request,
            range(rows),
            map(str, range(rows)) if self.request_ids is None else self.request_ids,
            _plain(self.arrival_ns),
            _plain(self.prompt_tokens),
            _plain(self.output_tokens),
            repeat(0) if self.priority is None else _plain(self.priority),
            repeat(None) if self.client is None else self.client,
            repeat(None) if self.slo_class is None else self.slo_class,
            repeat(()) if self.prefix_hashes is None else self.prefix_hashes,
        )


def _plain(column: NDArray[np.int64]) -> Iterator[int]:
    """The values as Python's ints, some at a time: a million of them at once take 30 MB."""
    parts = (column[start : start + _PART_ROWS] for start in range(0, len(column), _PART_ROWS))
    return chain.from_iterable(part.tolist() for part in parts)
