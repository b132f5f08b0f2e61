"""Measure the test server on the virtual clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sim.measure.measurement import Measurement, Target
from sim.measure.plan import Caps, Grid, make_plan
from sim.measure.runner import measure_server
from sim.measure.table import Row
from tests.measure.engine import Coefficients
from tests.measure.server import Server
from tests.measure.virtual_loop import run_virtual

SMALL = Grid(
    prompts=(32, 128, 512), batch_sizes=(1, 8), contexts=(64, 512), token_budget=512, repeats=1
)
"""Enough points to fit both regimes, few enough for a test; on the virtual clock once is enough."""


def measure(grid: Grid = SMALL, caps: Caps | None = None, **how: Any) -> tuple[Server, Measurement]:
    """What `measure_server` finds on a server of these settings. `target` holds Target's fields."""
    target = how.pop("target", {})

    async def main() -> tuple[Server, Measurement]:
        async with Server(**{"token_budget": 512, **how}) as server:
            aim = replace(Target(server.url, heartbeat_s=None), **target)
            return server, await measure_server(aim, make_plan(grid), caps or Caps(), lambda done: None)

    return run_virtual(main())


def true_us(costs: Coefficients, row: Row) -> float:
    """What the server's cost model says of a row's iteration."""
    count = row.num_decodes
    contexts = [row.decode_context_tokens / count] * count if count else []
    if row.num_prefill_tokens:
        return costs.mixed_us(contexts, [(row.num_prefill_tokens, row.prefill_cached_tokens)])
    return costs.decode_us(contexts)
