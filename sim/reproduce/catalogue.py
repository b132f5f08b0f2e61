"""The catalogue: which reproductions there are, and running one by its name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from sim.core.errors import UserError, suggestion
from sim.reproduce.configs import OnRun
from sim.reproduce.outcome import Outcome

REPRODUCTIONS = {
    "generation_stall": "Sarathi-Serve, Figure 1: decodes stall while prompts are processed",
    "ablation": "Sarathi-Serve, ablation table: hybrid batches, chunks, and both",
    "prefill_cost": "Sarathi-Serve: prefill saturates, chunks cost little, whole prompts much",
    "static_batching": "Orca: request-level against iteration-level batching",
    "phases": "Splitwise: prompt and token phases, and two Azure hours within SLO",
}
"""Name, which is also the module's, to what is redone."""


@dataclass(frozen=True)
class Options:
    """What a caller may choose, the same for every reproduction."""

    quick: bool = False
    """Reduced size: the same code over fewer requests, seeds and grid points."""
    traces: Path | None = None
    """Folder that holds the Azure files of 2023, for the reproduction that replays them."""
    on_run: OnRun | None = None
    """Called before every simulation with what it is."""


def reproduce(
    name: str,
    *,
    quick: bool = False,
    traces: str | Path | None = None,
    on_run: OnRun | None = None,
) -> Outcome:
    """Redo the reproduction `name`; UserError if there is none of that name. Writes nothing.

    `quick` is a reduced size. `traces` is a folder with the Azure files of 2023, which `phases` replays.
    `on_run` is called before every simulation with its config's name, policy and seed, as one text.
    """
    if name not in REPRODUCTIONS:
        raise UserError(f"unknown reproduction {name!r}: {suggestion(name, REPRODUCTIONS)}")
    module = importlib.import_module(f"sim.reproduce.{name}")
    outcome: Outcome = module.run(Options(quick, None if traces is None else Path(traces), on_run))
    return outcome
