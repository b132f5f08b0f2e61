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

    def plan(self, step: Step) -> None:
        step.decode_all()
        for request in step.waiting:
            if not step.schedule(request):
                break
