"""prefill_first: eager prefills in iterations of their own."""

from __future__ import annotations

from sim.core.protocols import Step
from sim.core.registry import param, policy


@policy("prefill_first", source="vLLM's original scheduler (SOSP 2023)", steady=True)
class PrefillFirst:
    """While a waiting request can be admitted, run only whole prompts; else run all decodes.

    New requests start soonest, and every decode waits for them: the generation stall.
    """

    max_batch_size: int = param(128, "requests running at once", minimum=1)

    def plan(self, step: Step) -> None:
        admitted = 0
        for request in step.waiting:
            if not step.schedule(request):
                break
            admitted += 1
        if not admitted:
            step.decode_all()
