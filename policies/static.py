"""static: request-level batching, as in FasterTransformer and Triton's dynamic batcher."""

from __future__ import annotations

from sim.core.protocols import Step
from sim.core.registry import param, policy
from sim.core.request import RequestState
from sim.core.units import seconds_to_ns


@policy("static", source="request-level batching; the baseline of Orca (OSDI 2022)", steady=True)
class Static:
    """Run a batch to its longest output before the next one starts; nothing joins it.

    One prefill padded to the longest prompt, then decodes in lockstep: every slot costs a decode at
    the padded context, finished or not. Tokens are delivered as they are made.
    """

    max_batch_size: int = param(16, "requests in a batch", minimum=1)
    max_wait_s: float = param(0.0, "longest wait for a fuller batch, from arrival", minimum=0.0)

    memory = "reserve"
    holds_finished = True

    def plan(self, step: Step) -> None:
        if step.num_running:
            self._continue(step)
        elif step.num_waiting >= self.max_batch_size or self._waited_long_enough(step):
            self._start(step)

    def _waited_long_enough(self, step: Step) -> bool:
        oldest = min(request.arrival_ns for request in step.waiting)
        due_ns = oldest + seconds_to_ns(self.max_wait_s)
        if step.now_ns < due_ns:
            step.wake_at(due_ns)
            return False
        return True

    def _start(self, step: Step) -> None:
        batch: list[RequestState] = []
        for request in step.waiting:
            if not step.schedule(request):
                break
            batch.append(request)
        step.pad(prefill_to=max(request.prompt_tokens for request in batch))

    def _continue(self, step: Step) -> None:
        longest_prompt = max(request.prompt_tokens for request in step.running)
        generated = max(request.generated_tokens for request in step.running)
        step.decode_all()
        step.pad(decode_slots=step.num_running, decode_context=longest_prompt + generated)
