"""continuous: iteration-level batching, the naive one."""

from __future__ import annotations

from sim.core.protocols import Step
from sim.core.registry import param, policy


@policy("continuous", source="Orca (OSDI 2022), Algorithm 1", steady=True)
class Continuous:
    """Every iteration runs all decodes and the whole prompt of each newly admitted request.

    A long prompt stretches the iteration for everyone: the decodes in it stall.
    """

    max_batch_size: int = param(128, "requests running at once", minimum=1)
    max_prefill_tokens: int | None = param(
        None, "prompt tokens admitted in one iteration; a single longer prompt still goes", minimum=1
    )

    num_steps: int = param(
        1, "decode iterations per scheduling decision (multi-step scheduling, vLLM 0.6)", minimum=1
    )

    def plan(self, step: Step) -> None:
        step.decode_all()
        step.admit_prompts(self.max_prefill_tokens)
        if self.num_steps > 1 and not step.num_prefills:
            step.repeat(self.num_steps)
