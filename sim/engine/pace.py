"""Pace: how long a planned iteration takes, and how far its plan is certain to repeat itself.

Asks the cost model and writes the iterations down. Decides nothing: the jump over certain repeats
equals taking them one by one (jump.py).
"""

from __future__ import annotations

from typing import Any

from sim.core.batch import Batch
from sim.core.protocols import CostModel, Policy
from sim.engine.arrivals import Arrivals
from sim.engine.jump import Jump, fitting_iterations, jump_over
from sim.engine.recorder import Recorder
from sim.engine.settings import EngineSettings
from sim.engine.state import ReplicaState
from sim.engine.step import Step


class Pace:
    """The time side of one replica, over the plan that `step` holds."""

    def __init__(
        self,
        cost: CostModel,
        policy: Policy,
        settings: EngineSettings,
        state: ReplicaState,
        step: Step,
        arrivals: Arrivals,
        recorder: Recorder,
        stays_inside: bool = False,
    ) -> None:
        """`stays_inside`: no batch without padding can lie outside the range of `cost`."""
        self._cost = cost
        self._policy: Any = policy
        self._state = state
        self._step = step
        self._arrivals = arrivals
        self._recorder = recorder
        self._runs_grow = bool(getattr(cost, "grows_with_context", False))
        self._jumps = settings.mode == "fast" and hasattr(policy, "steady")
        self._grows = state.memory.grows
        self._queue_is_steady = state.waiting.is_steady
        self._queue_reads_clock = state.waiting.reads_clock
        self._swap_ns_per_block = settings.swap_ns_per_block or 0
        self._cold_start_ns: int = getattr(cost, "cold_start_ns", 0)
        """Still to be added to the first iteration."""
        self._outside: Any = getattr(cost, "outside", None)
        self.extrapolated_iterations = None if self._outside is None else 0
        """Iterations outside the range the cost model was measured on, if it can tell."""
        self._stays_inside = stays_inside or self._outside is None
        self.later_calls = 0
        """How often the cost model was asked for more than one iteration a row."""
        self.swapped_blocks = 0
        """KV blocks moved to or from host memory."""

    def ask(self, is_behind: bool) -> tuple[int, Jump | None]:
        """When the planned iteration ends; or, if its repeats are certain, when the last of them does.

        They are not if the plan `is_behind`: made without something that is known by now.
        """
        step, state = self._step, self._state
        start_ns, chunks, used_blocks = step.now_ns, step.chunks, state.kv.used_blocks
        num_decodes = len(state.decoding) if step.all_decodes else len(step.some_decodes)
        batch = step.batch()
        end_ns, jump, iterations = start_ns + self._cost.iteration_ns(batch), None, 1
        if self._cold_start_ns or state.moving_blocks:
            end_ns += self._extra_ns()
        elif not chunks and step.all_decodes and not is_behind and self._repeats_itself():
            jump = self._jump(batch, end_ns)
            if jump is not None:
                end_ns, iterations = jump.end_ns, jump.iterations
                self.later_calls += jump.cost_calls
        self._recorder.iterations(
            start_ns, end_ns, jump, num_decodes, chunks, batch, used_blocks, len(state.waiting)
        )
        if step.is_unusual:
            self._record_waste(num_decodes, iterations)
        if not self._stays_inside or (step.is_unusual and self._outside is not None):
            self.extrapolated_iterations += self._outside(batch, iterations)
        return end_ns, jump

    def _extra_ns(self) -> int:
        """What the iteration waits for beside its batch: moving swapped KV, and once the cold start."""
        blocks, self._state.moving_blocks = self._state.moving_blocks, 0
        self.swapped_blocks += blocks
        cold_start_ns, self._cold_start_ns = self._cold_start_ns, 0
        return cold_start_ns + blocks * self._swap_ns_per_block

    def _repeats_itself(self) -> bool:
        """Whether a plan of all decodes repeats itself until a completion, an arrival or a lack of blocks.

        A step that preempted admits no one, but the next one may: it is not steady.
        """
        step, state = self._step, self._state
        return (
            self._jumps
            and self._policy.steady
            and step.iterations == 1
            and not step.preempted
            and not state.prefilling
            and (self._queue_is_steady or not state.waiting)
        )

    def _jump(self, batch: Batch, first_end_ns: int) -> Jump | None:
        """The planned iteration and its repeats, whose blocks are taken here; None without repeats."""
        state, grows = self._state, self._grows
        decodes, kv = state.decodes, state.kv
        change_ns = self._next_change_ns() if self._queue_reads_clock else self._arrivals.next_ns
        limit = decodes.iterations_to_completion()
        if limit > 1 and grows:
            limit = 1 + fitting_iterations(
                decodes.blocks_to_grow, len(state.decoding), kv.block_size, kv.free_blocks, limit - 1
            )
        jump = jump_over(
            self._cost, batch, self._step.now_ns, first_end_ns, limit, change_ns, self._runs_grow
        )
        if grows and jump is not None:
            kv.take(decodes.blocks_to_grow(1, jump.iterations - 1))
        return jump

    def _next_change_ns(self) -> int | None:
        """When something other than an iteration next changes what a plan sees."""
        arrival, reorder = self._arrivals.next_ns, self._state.waiting.reorders_at_ns
        if reorder is None or arrival is None:
            return arrival if reorder is None else reorder
        return min(arrival, reorder)

    def _record_waste(self, num_decodes: int, iterations: int) -> None:
        """What a padded plan, or slots held by finished requests, compute for nothing."""
        step = self._step
        if step.pad_prefill_to:
            padded = step.pad_prefill_to * len(step.chunks) - sum(step.chunks.values())
            self._recorder.padding(padded, 0, len(step.chunks))
        elif step.pad_decode_slots:
            idle = step.pad_decode_slots - num_decodes
            self._recorder.padding(0, idle * iterations, num_decodes * iterations)
        elif step.ghost_contexts:
            self._recorder.padding(0, len(step.ghost_contexts), num_decodes)
