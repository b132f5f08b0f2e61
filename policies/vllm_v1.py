"""vllm_v1: the scheduler of vLLM's V1 engine."""

from __future__ import annotations

from sim.core.protocols import Step
from sim.core.registry import param, policy


@policy("vllm_v1", source="vLLM 0.19, vllm/v1/core/sched/scheduler.py", steady=True)
class VllmV1:
    """One rule for all: tokens to running requests in admission order, then to waiting ones.

    A request gets what it still lacks, or what is left of the budget (a chunk). KV blocks are taken
    for the tokens of the iteration only; a running request that finds none preempts the most
    recently admitted one. A waiting request is admitted only if its whole prompt would fit now.
    """

    token_budget: int = param(
        2048,
        "tokens an iteration; vLLM's max_num_batched_tokens, whose default as a server is 2048, "
        "and 8192 on GPUs of 70 GiB and more other than the A100",
        minimum=1,
    )
    max_batch_size: int = param(
        128,
        "requests running at once; vLLM's max_num_seqs (default 256, on those GPUs 1024)",
        minimum=1,
    )
    long_prefill_token_threshold: int = param(
        0, "longest chunk of one request, so that several prompts share an iteration; 0: no limit", minimum=0
    )

    blocks_by_chunk = True

    def plan(self, step: Step) -> None:
        if (step.prefilling and self.long_prefill_token_threshold) or step.num_decoding > step.budget_left:
            self._running_one_by_one(step)
        else:
            # A partial prefill has used up a budget, so nobody was admitted after it: it is the last.
            step.decode_all()
            for request in step.prefilling:
                step.schedule(request, self._longest_chunk(step))
        for request in step.waiting:
            if not step.schedule(request, self._longest_chunk(step)):
                break

    def _running_one_by_one(self, step: Step) -> None:
        for request in step.running:
            if request.admission is None or not step.budget_left:
                break
            step.schedule(request, self._longest_chunk(step))

    def _longest_chunk(self, step: Step) -> int:
        return min(step.budget_left, self.long_prefill_token_threshold or step.budget_left)
