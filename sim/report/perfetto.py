"""A run in the Chrome trace-event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Owns what becomes a track, a slice, a flow and a counter. Times are whole microseconds since the first
arrival, rounded down, so that slices which touch or nest in ns still do. Source of the format: "Trace
Event Format", Google, 2016; checked by tests/explain/trace_events.py.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sim.core.errors import UserError
from sim.core.record import RunRecord
from sim.report.explain.causes import Accounts
from sim.report.explain.lives import NEVER, Life, Stay

Event = dict[str, Any]

REPLICA, REQUESTS = 1, 2
"""The two processes of the trace."""
ITERATIONS_TRACK, FIRST_REQUEST_TRACK = 1, 1_000_000
"""Threads: viewers show the number beside the name, so a request's must not look like another's id."""


def trace_events(
    record: RunRecord, *, name: str, stall_ns: int, window_ns: tuple[int, int] | None = None
) -> Iterator[Event]:
    """All events of the run called `name`, or of what touches the window [start, end).

    One track of iterations, counters of running and waiting requests and KV blocks, and one track a
    request: waiting, prefill chunks, decode, preempted; gaps longer than `stall_ns` are slices of their
    own, with an arrow from the prefill that has the largest part in them. `record` must hold events.
    """
    return _Export(record, stall_ns, window_ns).events(name)


def write_trace(events: Iterable[Event], path: Path, about: dict[str, Any]) -> int:
    """Write the events as one JSON file, compressed if it is called *.gz; how many there were.

    Whole or not at all; UserError if the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            file: BinaryIO = stack.enter_context(open(partial, "wb"))
            if path.suffix == ".gz":
                # Without name and time in its head, so that the same run gives the same bytes.
                zipped = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
                file = stack.enter_context(io.BufferedWriter(stack.enter_context(zipped)))
            count = _write_json(events, file, about)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return count


def _write_json(events: Iterable[Event], file: BinaryIO, about: dict[str, Any]) -> int:
    """The JSON object, one event a line."""
    file.write(json.dumps({"displayTimeUnit": "ms", "otherData": about})[:-1].encode())
    file.write(b', "traceEvents": [\n')
    count = 0
    for count, event in enumerate(events, start=1):
        line = json.dumps(event, separators=(",", ":"))
        file.write(f",\n{line}".encode() if count > 1 else line.encode())
    file.write(b"\n]}\n")
    return count


class _Export:
    """One export: the run and the window."""

    def __init__(self, record: RunRecord, stall_ns: int, window_ns: tuple[int, int] | None) -> None:
        self._record = record
        self._stall_ns = stall_ns
        self._accounts = Accounts(record)
        events = self._accounts.lives.events
        self._start, self._end, self._events = events.start_ns(), events.end_ns, events
        self._last_ns = int(self._end[-1]) if len(self._end) else 0
        self._from, self._to = window_ns or (0, self._last_ns + 1)
        self._flow_ids = itertools.count(1)
        rows = range(len(record.trace))
        self._lives = {row: life for row in rows if (life := self._accounts.lives.of(row)) is not None}

    def events(self, name: str) -> Iterator[Event]:
        yield _meta("process_name", f"replica ({name})", REPLICA)
        yield _meta("process_sort_index", 1, REPLICA)
        yield _meta("thread_name", "iterations", REPLICA, ITERATIONS_TRACK)
        yield from self._iterations()
        yield from self._load_counters()
        yield from self._kv_counter()
        yield _meta("process_name", "requests", REQUESTS)
        yield _meta("process_sort_index", 2, REQUESTS)
        for life in self._lives.values():
            yield from self._request(life)

    def _touches(self, start_ns: int, end_ns: int) -> bool:
        return start_ns < self._to and end_ns > self._from

    def _iterations(self) -> Iterator[Event]:
        first = int(np.searchsorted(self._end, self._from, side="right"))
        last = int(np.searchsorted(self._start, self._to, side="left"))
        chunks = self._events.chunks
        place = int(np.searchsorted(chunks[:, 0], first))
        for number in range(first, last):
            tokens = prefills = 0
            while place < len(chunks) and chunks[place, 0] == number:
                tokens, prefills, place = tokens + int(chunks[place, 2]), prefills + 1, place + 1
            decodes = int(self._events.num_decodes[number])
            arguments = {
                "iteration": number, "decodes": decodes, "prefills": prefills, "prefill_tokens": tokens,
            }  # fmt: skip
            start, end = int(self._start[number]), int(self._end[number])
            yield _slice(_kind(decodes, prefills), REPLICA, ITERATIONS_TRACK, start, end, **arguments)

    def _load_counters(self) -> Iterator[Event]:
        """Running and waiting requests wherever they change."""
        changes: dict[int, list[int]] = {}

        def change(time_ns: int, running: int, waiting: int) -> None:
            counts = changes.setdefault(time_ns, [0, 0])
            counts[0] += running
            counts[1] += waiting

        for life in self._lives.values():
            change(life.reached_ns, 0, 1)
            for stay in life.stays:
                change(int(self._start[stay.admitted]), 1, -1)
                if stay.left_ns is not None:
                    change(stay.left_ns, -1, 0 if stay.preempted_for is None else 1)
        running = waiting = 0
        for time_ns in sorted(changes):
            running += changes[time_ns][0]
            waiting += changes[time_ns][1]
            if self._from <= time_ns < self._to:
                yield _counter("running requests", time_ns, running)
                yield _counter("waiting requests", time_ns, waiting)

    def _kv_counter(self) -> Iterator[Event]:
        """KV blocks in use, where iterations were recorded: one value an iteration or jump."""
        before = None
        for row in self._record.iterations:
            start, used = int(row[0]), int(row[6])
            if used != before and self._from <= start < self._to:
                before = used
                yield _counter("KV blocks used", start, used)

    def _request(self, life: Life) -> Iterator[Event]:
        row, trace = life.row, self._record.trace
        arrival = int(self._record.arrival_ns[row])
        finish = life.stays[-1].left_ns if life.stays else None
        if not self._touches(arrival, self._last_ns if finish is None else finish):
            return
        yield _meta("thread_name", f"request {trace.id_of(row)}", REQUESTS, _track(row))
        yield _meta("thread_sort_index", row, REQUESTS, _track(row))
        began_ns, title = arrival, "waiting"
        for stay in life.stays:
            yield from self._span(title, row, began_ns, int(self._start[stay.admitted]))
            yield from self._stay(row, stay)
            if stay.left_ns is None:
                return
            began_ns, title = stay.left_ns, "preempted"
        if not life.stays or life.stays[-1].preempted_for is not None:
            yield from self._span(title, row, began_ns, self._last_ns)

    def _stay(self, row: int, stay: Stay) -> Iterator[Event]:
        """Prefill chunks, then one slice of decode with the stalls inside it."""
        for number, _, tokens, cached in stay.chunks.tolist():
            start, end = int(self._start[number]), int(self._end[number])
            yield from self._span("prefill", row, start, end, tokens=tokens, cached=cached, iteration=number)
        until_ns = self._last_ns if stay.left_ns is None else stay.left_ns
        if stay.decodes_from == NEVER:
            return
        is_resumed = not len(stay.chunks)
        start = int(self._start[stay.admitted] if is_resumed else self._end[stay.decodes_from - 1])
        decoded = int((stay.tokens >= stay.decodes_from).sum())
        yield from self._span("decode", row, start, until_ns, tokens=decoded)
        yield from self._stalls(row, stay)

    def _span(self, title: str, row: int, start_ns: int, end_ns: int, **arguments: Any) -> Iterator[Event]:
        if start_ns < end_ns and self._touches(start_ns, end_ns):
            yield _slice(title, REQUESTS, _track(row), start_ns, end_ns, **arguments)

    def _stalls(self, row: int, stay: Stay) -> Iterator[Event]:
        """Long gaps, each with an arrow from the prefill that has most of it."""
        times = self._end[stay.tokens]
        for place in np.flatnonzero(np.diff(times) > self._stall_ns).tolist():
            start, end = times[place : place + 2].tolist()
            if not self._touches(start, end):
                continue
            earlier, later = stay.tokens[place : place + 2].tolist()
            causes: Counter[str] = Counter()
            behind: Counter[int] = Counter()
            for (cause, by), ns in self._accounts.between_tokens(self._lives[row], earlier, later).items():
                causes[f"{cause}_us"] += ns // 1000
                if cause == "other_prefill" and by is not None:
                    behind[by] += ns
            yield _slice("stall", REQUESTS, _track(row), start, end, **causes)
            if behind:
                yield from self._arrow(behind.most_common(1)[0][0], row, earlier + 1, later + 1)

    def _arrow(self, from_row: int, to_row: int, first: int, until: int) -> Iterator[Event]:
        """From the largest chunk of `from_row` in iterations first, ..., until - 1 to the stall beside it."""
        chunks = self._events.chunks
        here = chunks[slice(*np.searchsorted(chunks[:, 0], (first, until)))]
        here = here[here[:, 1] == from_row]
        number = int(here[here[:, 2].argmax(), 0])
        start, end = int(self._start[number]), int(self._end[number])
        if self._touches(start, end):
            common = {"name": "stalled by", "cat": "stall", "id": next(self._flow_ids), "pid": REQUESTS}
            yield {"ph": "s", **common, "tid": _track(from_row), "ts": start // 1000}
            middle = (start + end) // 2
            yield {"ph": "f", "bp": "e", **common, "tid": _track(to_row), "ts": middle // 1000}


def _track(row: int) -> int:
    return FIRST_REQUEST_TRACK + row


def _kind(decodes: int, prefills: int) -> str:
    if not prefills:
        return "decode"
    return "mixed" if decodes else "prefill"


def _meta(kind: str, value: str | int, pid: int, tid: int | None = None) -> Event:
    track = {} if tid is None else {"tid": tid}
    key = "name" if isinstance(value, str) else "sort_index"
    return {"ph": "M", "name": kind, "pid": pid, **track, "args": {key: value}}


def _slice(name: str, pid: int, tid: int, start_ns: int, end_ns: int, **arguments: Any) -> Event:
    start, end = start_ns // 1000, end_ns // 1000
    times = {"ts": start, "dur": end - start}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times, "args": arguments}


def _counter(name: str, time_ns: int, value: int) -> Event:
    return {"ph": "C", "name": name, "pid": REPLICA, "ts": time_ns // 1000, "args": {"value": value}}
