"""Small real runs for the plots' tests: a tight trace through the engine, with every token's time."""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.continuous import Continuous
from policies.prefill_first import PrefillFirst
from policies.stall_free import StallFree
from policies.static import Static
from sim.core.batch import Batch
from sim.core.record import RunRecord
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.engine import EngineSettings, simulate
from sim.report.metrics import summarize
from sim.report.view import RunView, view_of

POLICIES = {
    "static": Static,
    "continuous": Continuous,
    "prefill_first": PrefillFirst,
    "stall_free": StallFree,
}


class FlatCost:
    """10 ms an iteration and 1 ms for every 10 prefill tokens: the iterations of a jump are equal."""

    def iteration_ns(self, batch: Batch) -> int:
        return 10_000_000 + 100_000 * batch.prefill_tokens

    def decode_run_ns(self, batch: Batch, iterations: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.full(iterations, self.iteration_ns(batch), dtype=np.int64)


def small_trace(requests: int = 40) -> Trace:
    random = stream(0, "small-trace")
    arrivals = np.cumsum(random.integers(0, 80_000_000, requests))
    return Trace(
        name="small",
        arrival_ns=arrivals - arrivals[0],
        prompt_tokens=random.integers(10, 3000, requests),
        output_tokens=random.integers(1, 60, requests),
    )


def real_record(policy: str, **settings: Any) -> RunRecord:
    made = POLICIES[policy]()
    return simulate(small_trace(), made, FlatCost(), EngineSettings(token_times=True, **settings))


def real_view(policy: str, slo: dict[str, float] | None = None, **settings: Any) -> RunView:
    record = real_record(policy, **settings)
    summary = summarize(record, slo=slo, provenance={"policy": policy})
    return view_of(record, name=policy, config={"name": "small"}, summary=summary)
