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
    max_prefill_tokens: int | None = param(
        None,
        "prompt tokens in one iteration; a single longer prompt still goes (vLLM's "
        "max_num_batched_tokens)",
        minimum=1,
    )

    def plan(self, step: Step) -> None:
        step.admit_prompts(self.max_prefill_tokens)
        if not step.num_prefills:
            step.decode_all()
