"""Measurement: the server asked, the plan, and what has been measured so far."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sim.measure.errors import MeasureError
from sim.measure.meter import Meter
from sim.measure.plan import Caps, Plan
from sim.measure.timeline import Refusal, Sample


@dataclass(frozen=True, slots=True)
class Target:
    """The server to measure and how to speak to it."""

    url: str
    """Base URL ending in /v1."""
    model: str | None = None
    """None: the only one it serves."""
    api_key: str | None = None
    prompt_style: str = "tokens"
    token_ids: tuple[int, int] = (1_000, 20_000)
    timeout_s: float = 60.0
    seed: int = 0
    heartbeat_s: float | None = 0.001
    """How long the client sleeps at most: a processor that slept longer stamps a token later."""


@dataclass
class Measurement:
    """What has been measured so far; usable at any moment."""

    target: Target
    plan: Plan
    caps: Caps
    meter: Meter
    started: str
    """UTC, ISO 8601."""
    model: str = ""
    server: str = ""
    """What the server calls itself; empty if it does not."""
    samples: list[Sample] = field(default_factory=list)
    refusals: defaultdict[str, list[Refusal]] = field(default_factory=lambda: defaultdict(list))
    """By cell, why repeats of it were left out."""
    stopped: str = ""
    """Which cap ended the measurement early; empty if none did."""
    complete: bool = False
    """Whether every step of the plan was carried out."""

    def refuse(self, cell: str, refusal: Refusal) -> None:
        """Leave a repeat of `cell` out; MeasureError once all its repeats deny the token budget."""
        reasons = self.refusals[cell]
        reasons.append(refusal)
        if sum(reason.wrong_budget for reason in reasons) == self.plan.grid.repeats:
            raise MeasureError(
                f"--token-budget {self.plan.grid.token_budget}: {cell}: {refusal.reason}; give the "
                "server's own tokens an iteration (vLLM: --max-num-batched-tokens)"
            )

    @property
    def notices(self) -> list[str]:
        """Sentences for the user: what of the plan was left out on the way, and why."""
        repeats = self.plan.grid.repeats
        refused = [
            f"{cell}: {len(reasons)} of {repeats} repeats left out: {reasons[-1].reason}"
            for cell, reasons in self.refusals.items()
        ]
        return [*refused, *([self.stopped] if self.stopped else [])]
