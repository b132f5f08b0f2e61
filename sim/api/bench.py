"""Bench: one policy over the same requests at any arrival rate; and whether such a run is a steady one.

Owns the trace at a rate. What a rate is held against is capacity.py's and attainment.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from sim.api.comparison import Contender
from sim.api.inputs import Inputs
from sim.api.simulation import measure_with, was_interrupted
from sim.core.errors import suggestion
from sim.core.record import FINISHED, RunRecord
from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.report.metrics import e2e_ns
from sim.trace.options import PoissonArrivals
from sim.trace.select import scaled_rate
from sim.trace.synthetic import with_arrivals

GROWTH = 0.1
"""Share of the requests of the second half that may pile up in it before a run counts as unsteady."""
SPAN_IN_LATENCIES = 5.0
"""Median E2E latencies that arrivals must span, or the run is over before it is in a steady state."""


class Bench:
    """One policy over one trace, to be run at any rate."""

    def __init__(self, contender: Contender, inputs: Inputs) -> None:
        engine = contender.config.engine.updated(record_iterations=False, token_times=False)
        self.contender = contender
        self.config = contender.config.updated(engine=engine)
        self._inputs = inputs

    @property
    def trace(self) -> Trace:
        return self._inputs.trace

    def run(self, rate_per_s: float | None) -> tuple[RunRecord, dict[str, Any]]:
        """Record and summary at that rate (None: as the trace is). KeyboardInterrupt if interrupted."""
        trace = self.trace if rate_per_s is None else self.at(rate_per_s)
        inputs = replace(self._inputs, trace=trace)
        record, _, summary = measure_with(self.config, inputs, label=self.contender.label)
        if was_interrupted(record):
            raise KeyboardInterrupt
        return record, summary

    def at(self, rate_per_s: float) -> Trace:
        """The trace at that rate: the same requests, and the same random numbers at every rate."""
        if self.config.capacity.arrivals == "poisson":
            return with_arrivals(self.trace, PoissonArrivals(rate_per_s=rate_per_s), self.config.seed)
        own = own_rate_per_s(self.trace)
        if own is None:
            problem = "all requests of the trace arrive at once, so its own arrivals have no rate to change"
            raise self.config.source.error("capacity.arrivals", problem)
        return scaled_rate(self.trace, rate_per_s / own)

    def metric(self, summary: Mapping[str, Any], name: str) -> float | None:
        """The number at path `name` of a summary; ConfigError if there is no such number."""
        found: Any = summary
        place = ""
        for key in name.split("."):
            if not isinstance(found, Mapping) or key not in found:
                near = f": {suggestion(key, map(str, found))}" if isinstance(found, Mapping) else ""
                problem = f"no such metric {name!r}; {place or 'the summary'} has no {key!r}{near}"
                raise self.config.source.error("capacity.limits", problem)
            found, place = found[key], f"{place}.{key}" if place else key
        if found is not None and not isinstance(found, (int, float)):
            raise self.config.source.error("capacity.limits", f"{name!r} is not a number of the summary")
        return found


def own_rate_per_s(trace: Trace) -> float | None:
    """Mean arrival rate; None if all arrive at once."""
    span_ns = int(trace.arrival_ns[-1] - trace.arrival_ns[0])
    return (len(trace) - 1) * NS_PER_S / span_ns if span_ns else None


def unsteady(record: RunRecord) -> str | None:
    """Why a run is no picture of its arrival rate going on for ever; None if it may be one.

    Either the arrivals are over within a few request latencies, or requests pile up until they end.
    """
    done = record.status == FINISHED
    arrivals, finishes = record.arrival_ns[done], np.sort(record.finish_ns[done])
    if len(arrivals) < 2:
        return "it has fewer than two requests"
    span, latency = int(arrivals.max() - arrivals.min()), float(np.median(e2e_ns(record)[done]))
    if span < SPAN_IN_LATENCIES * latency:
        return f"all requests arrive within {span / latency:.1f} times the median latency"
    ordered = np.sort(arrivals)
    half, last = len(ordered) // 2, len(ordered) - 1
    at_half, at_last = (
        place + 1 - int(np.searchsorted(finishes, ordered[place], "right")) for place in (half, last)
    )
    growth = at_last - at_half
    if growth > GROWTH * (last - half) and growth > 3 * sqrt(max(at_half, at_last)):
        return f"requests still pile up when it ends (from {at_half} to {at_last} in its second half)"
    return None
