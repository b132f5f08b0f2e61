"""load_trace: a file in any known format to a Trace, with everything that may be asked of it."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim.core.errors import TraceError
from sim.core.trace import Trace
from sim.trace import select
from sim.trace.bootstrap import bootstrapped
from sim.trace.formats import find_format
from sim.trace.options import Arrivals
from sim.trace.raw import RawTrace
from sim.trace.source import TraceSource, damage_reported

NO_ARRIVALS = "the file has no arrival times: every request arrives at 0; trace.arrivals gives them a process"


def load_trace(
    path: str | Path,
    *,
    format: str = "auto",
    limit: int | None = None,
    rate_scale: float = 1.0,
    window_s: Sequence[float | str] | None = None,
    thin: float | None = None,
    max_prompt_tokens: int | None = None,
    max_output_tokens: int | None = None,
    max_total_tokens: int | None = None,
    over_cap: str = "reject",
    arrivals: Arrivals | Mapping[str, Any] | None = None,
    sessions: bool = True,
    bootstrap: int | None = None,
    seed: int = 0,
) -> Trace:
    """The requests in `path`, in order of arrival, the first at 0.

    Applied in this order: `window_s` (start, end; seconds after the first arrival), `thin` (keep
    this fraction, seeded), `limit` (the first so many rows), `arrivals` (an arrival process of
    sim/trace/options.py that replaces the file's times), `bootstrap` (drawn again in so many blocks,
    seeded), `rate_scale` (2 is twice as fast), and the length caps, of which `over_cap` says what to
    do: reject, clip or drop. Without a window or
    thinning, reading stops at `limit` rows, in the order of the file. `sessions=False` forgets which
    requests are turns of one conversation, so that each arrives when the file says.

    Raises TraceError for what is wrong with the file and ConfigError for what is wrong with an
    option; what was changed or left out is in the trace's `notices` and `dropped`.
    """
    source = TraceSource(Path(path))
    if not source.path.exists():
        raise TraceError(f"no trace file {path}{_near(source.path)}")
    if source.path.is_dir():
        raise TraceError(f"{path} is a folder; trace.path must name a file")
    raw = RawTrace(source.path, limit=limit if window_s is None and thin is None else None)
    with _collector_paused(), damage_reported(source.path):
        _read(source, raw, format)
    trace = select.build_trace(raw, source.path.name)
    if window_s is not None:
        trace = select.in_window(trace, window_s)
    if thin is not None:
        trace = select.thinned(trace, thin, seed)
    if limit is not None:
        trace = select.limited(trace, limit)
    if not sessions:
        trace = dataclasses.replace(trace, session=None, think_ns=None)
    if raw.without_times and arrivals is None:
        trace = select.noted(trace, NO_ARRIVALS)
    if arrivals is not None:
        from sim.trace.synthetic import with_arrivals

        trace = with_arrivals(trace, arrivals, seed)
    if bootstrap is not None:
        trace = bootstrapped(trace, bootstrap, seed)
    trace = select.scaled_rate(trace, rate_scale)
    return select.capped(
        trace,
        over_cap,
        max_prompt_tokens=max_prompt_tokens,
        max_output_tokens=max_output_tokens,
        max_total_tokens=max_total_tokens,
    )


def _read(source: TraceSource, raw: RawTrace, format: str) -> None:
    found = find_format(format, source)
    try:
        found.read(source, raw)
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        # nested JSON with a number where an object should be, and the like
        raise TraceError(
            f"{source.path}: not laid out as format {found.name!r} is ({type(error).__name__}: {error})"
        ) from error


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection while millions of long-lived rows are made; it doubles the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # through the frozen generation to the oldest one, so that enabling does not walk all rows
            gc.freeze()
            gc.enable()
            gc.unfreeze()


def _near(path: Path) -> str:
    """The file of the same folder whose name is nearest, as a question."""
    import difflib

    folder = path.parent
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {folder / close[0]}?" if close else ""
