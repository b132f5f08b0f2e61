"""A discrete-event simulator and research testbed for LLM-serving schedulers.

    import sim
    cfg = sim.load_config("configs/quickstart.yaml", {"policy.token_budget": 512})
    result = sim.run(cfg)
    result.summary["ttft_s"]["p99"]

What is offered here is loaded on first use, so that `import sim` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sim.core.version import __version__

if TYPE_CHECKING:
    from sim.api import (
        Result,
        attainment,
        best_goodput,
        bounds,
        capacity,
        compare,
        differences,
        frontier,
        load_config,
        load_run,
        means,
        run,
    )
    from sim.core.errors import SimError, UserError
    from sim.core.registry import param, policy
    from sim.sweeps import sweep

_HOMES = {
    "Result": "sim.api",
    "attainment": "sim.api",
    "best_goodput": "sim.api",
    "bounds": "sim.api",
    "capacity": "sim.api",
    "compare": "sim.api",
    "differences": "sim.api",
    "frontier": "sim.api",
    "load_config": "sim.api",
    "load_run": "sim.api",
    "means": "sim.api",
    "run": "sim.api",
    "sweep": "sim.sweeps",
    "SimError": "sim.core.errors",
    "UserError": "sim.core.errors",
    "param": "sim.core.registry",
    "policy": "sim.core.registry",
}

__all__ = [
    "Result",
    "SimError",
    "UserError",
    "__version__",
    "attainment",
    "best_goodput",
    "bounds",
    "capacity",
    "compare",
    "differences",
    "frontier",
    "load_config",
    "load_run",
    "means",
    "param",
    "policy",
    "run",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
