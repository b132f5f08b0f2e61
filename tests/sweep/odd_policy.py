"""Policies that misbehave when told to, for tests of what a sweep makes of it."""

import os
import signal
import time

from sim.core.protocols import Step
from sim.core.registry import param, policy


@policy("odd")
class Odd:
    """Continuous batching that raises, dies or tells its process at its first decision, as `deed` says."""

    max_batch_size: int = param(8, "requests running at once", minimum=1)
    deed: str = param("none", "what it does", allowed=("none", "raise", "die", "whoami"))
    dawdle_s: float = param(0.0, "real seconds it sleeps before")

    def __post_init__(self) -> None:
        self.fresh = True

    def plan(self, step: Step) -> None:
        if self.fresh:
            self.fresh = False
            self.act()
        step.decode_all()
        for request in step.waiting:
            if not step.schedule(request):
                break

    def act(self) -> None:
        time.sleep(self.dawdle_s)
        if self.deed == "raise":
            raise RuntimeError("as it was told")
        if self.deed == "whoami":
            raise RuntimeError(f"process {os.getpid()}")
        if self.deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
