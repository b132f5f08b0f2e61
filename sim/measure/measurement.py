"""Measurement: the server asked, the plan, and what has been measured so far."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sim.measure.errors import MeasureError
from sim.measure.meter import Meter
from sim.measure.plan import Caps, Plan
from sim.measure.timeline import Refusal, Sample

LEAST_DENIALS = 3
"""Repeats that must contradict the token budget before it is called wrong."""


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

    def keep(self, cell: str, found: Sample | list[Sample] | Refusal) -> None:
        """Add what one repeat of `cell` gave; MeasureError once its repeats deny the token budget.

        A stall can look like that once or twice, so that fewer than three repeats never raise.
        """
        if not isinstance(found, Refusal):
            self.samples += [found] if isinstance(found, Sample) else found
            return
        self.refusals[cell].append(found)
        denials = sum(refusal.wrong_budget for refusal in self.refusals[cell])
        if denials >= max(LEAST_DENIALS, self.plan.grid.repeats):
            raise MeasureError(
                f"--token-budget {self.plan.grid.token_budget}: {cell}: {found.reason}; give the "
                "server's own tokens an iteration (vLLM: --max-num-batched-tokens)"
            )

    def lost(self, cell: str) -> bool:
        """Whether half of the repeats of `cell` or more were left out: it has no row then."""
        chunks = Counter(s.prefill_cached_tokens for s in self.samples if s.cell == cell)
        kept = max(chunks.values(), default=0)
        return kept <= len(self.refusals.get(cell, ()))

    @property
    def notices(self) -> list[str]:
        """Sentences for the user: which points have no row and why, and what else was left out."""
        lost = [cell for cell in self.refusals if self.lost(cell)]
        notices = [f"{cell}: no row: {self.refusals[cell][-1].reason}" for cell in lost]
        disturbed = sum(len(reasons) for cell, reasons in self.refusals.items() if cell not in lost)
        if disturbed:
            notices.append(f"{disturbed} disturbed repeats of other points were left out (see meta.yaml)")
        if self.stopped:
            notices.append(self.stopped)
        return notices
