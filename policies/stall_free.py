"""stall_free: chunked prefill that never stalls a decode."""

from __future__ import annotations

from typing import Literal

from sim.core.protocols import Step
from sim.core.registry import param, policy
from sim.core.request import RequestState


@policy("stall_free", source="Sarathi-Serve (OSDI 2024), Algorithm 3")
class StallFree:
    """A token budget an iteration: all decodes, then the partly done prefill, then new requests.

    A prefill only ever gets what the decodes left of the budget, so an iteration stays short
    however long the prompts are. The two parts can be switched off for the paper's ablation.
    """

    token_budget: int | Literal["auto"] = param(
        512, "tokens an iteration, decodes included; auto: the largest that keeps slo.tbt_s", minimum=1
    )
    max_batch_size: int = param(128, "requests running at once, partial prefills included", minimum=1)
    chunk_multiple: int = param(
        1, "chunks are multiples of this many tokens (GPU tiles), the last one excepted", minimum=1
    )
    hybrid: bool = param(True, "decodes and chunks share an iteration; off: they alternate")
    chunked: bool = param(True, "prefills may be split; off: whole prompts within the budget")

    steady = True
    _prefilled_last = False

    def prepare(self, longest_prompt: int) -> str | None:
        """Unchunked, a prompt longer than the budget would wait for ever: raise the budget, and say so."""
        if self.chunked or not isinstance(self.token_budget, int) or longest_prompt <= self.token_budget:
            return None
        given, self.token_budget = self.token_budget, longest_prompt
        return f"token_budget raised from {given} to {longest_prompt}, the longest prompt: chunked is off"

    def plan(self, step: Step) -> None:
        if self.hybrid:
            step.decode_all()
            self._prefill(step)
            return
        # Alternate, as Sarathi-Serve's chunking-only baseline; the turn after this one may differ.
        turn_taken = self._prefilled_last and step.num_decoding > 0
        self._prefilled_last = not turn_taken and self._prefill(step)
        if not self._prefilled_last:
            step.decode_all()
        self.steady = not turn_taken

    def _prefill(self, step: Step) -> bool:
        """Chunks for the partly done, then for new requests; whether there was any."""
        scheduled = False
        for request in step.prefilling:
            scheduled |= step.schedule(request, self._chunk(step, request))
        for request in step.waiting:
            if not step.schedule(request, self._chunk(step, request)):
                break
            scheduled = True
        return scheduled

    def _chunk(self, step: Step, request: RequestState) -> int:
        remaining, left = request.prefill_tokens - request.prefilled_tokens, step.budget_left
        # What a preemption made longer than the budget is split even so: it must not wait for ever.
        if remaining <= left or not (self.chunked or request.prefill_tokens > request.prompt_tokens):
            return remaining
        return left - left % self.chunk_multiple
