"""stall_free: chunked prefill that never stalls a decode."""

from __future__ import annotations

from sim.core.protocols import Step
from sim.core.registry import param, policy


@policy("stall_free", source="Sarathi-Serve (OSDI 2024), Algorithm 3", steady=True)
class StallFree:
    """A token budget an iteration: all decodes, then the partly done prefill, then new requests.

    A prefill only ever gets what the decodes left of the budget, so an iteration stays short
    however long the prompts are.
    """

    token_budget: int = param(512, "tokens an iteration, decodes included", minimum=1)
    max_batch_size: int = param(128, "requests running at once, partial prefills included", minimum=1)

    def plan(self, step: Step) -> None:
        step.decode_all()
        for request in step.prefilling:
            step.schedule(request, min(request.remaining_prefill_tokens, step.budget_left))
        for request in step.waiting:
            if not step.schedule(request, min(request.remaining_prefill_tokens, step.budget_left)):
                break
