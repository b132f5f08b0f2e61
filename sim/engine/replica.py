"""Replica: the SimPy process of one engine. Its loop: admit, plan, ask how long, wait, commit.

Owns waiting, tokens and completions. What to run is the policy's decision (through Step), how long
it takes is the cost model's (through Pace).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator
from typing import TypeVar

import simpy

from sim.core.errors import PolicyError, SimError, StalledError
from sim.core.protocols import Policy
from sim.core.request import RequestState
from sim.engine.arrivals import Arrivals
from sim.engine.clock import Clock, Delay
from sim.engine.decodes import by_admission
from sim.engine.jump import Jump
from sim.engine.pace import Pace
from sim.engine.recorder import Recorder
from sim.engine.settings import EngineSettings
from sim.engine.state import ReplicaState
from sim.engine.step import Step
from sim.engine.tokens import TokenLog

T = TypeVar("T")

MAX_WAKES = 100_000
"""Fruitless wakes in a row that count as a policy that makes no progress."""


class Replica:
    """One model replica serving what `arrivals` brings, by `policy`, at its `pace`."""

    def __init__(
        self,
        env: Clock,
        arrivals: Arrivals,
        policy: Policy,
        pace: Pace,
        settings: EngineSettings,
        state: ReplicaState,
        step: Step,
        recorder: Recorder,
        tokens: TokenLog | None,
    ) -> None:
        self._env = env
        self._arrivals = arrivals
        self._plan = policy.plan
        self._pace = pace
        self._settings = settings
        self._state = state
        self._step = step
        self._recorder = recorder
        self._tokens = tokens
        self._plans_ahead = settings.async_scheduling
        self._holds_finished = bool(getattr(policy, "holds_finished", False))
        self._on_arrival = getattr(policy, "on_arrival", None)
        self._on_tokens = getattr(policy, "on_tokens", None)
        self._known_ns: int | None = None
        """Async scheduling: when the iteration that just ended began, None if the pipeline is dry."""
        self._is_behind = False
        """Whether the plan was made without something that is known by now."""
        self._fruitless_wakes = 0
        """How often in a row the policy wanted to be asked again later, and then still planned nothing."""
        self._repetitions = 0
        """How often the plan is still to be run before the next decision (Step.repeat)."""
        self.policy_calls = 0
        self.in_policy = False
        """Whether the policy's code is running now (read by the watchdog)."""

    def serve(self) -> Generator[simpy.Event, object, None]:
        """The SimPy process: until every request has left."""
        env = self._env
        now_ns = env.now
        while True:
            if self._decide(now_ns):
                end_ns, jump = self._pace.ask(self._is_behind)
                yield Delay(env, end_ns - now_ns)
                now_ns = end_ns
                self._commit(end_ns, jump)
            elif self._work_remains():
                yield self._until_something_happens()
                now_ns = env.now
            else:
                return

    def unfinished(self) -> list[RequestState]:
        """Requests in the engine, as after an interrupt."""
        return [*self._state.waiting, *self._state.running]

    def _work_remains(self) -> bool:
        state = self._state
        return bool(state.running or state.waiting or not self._arrivals.exhausted)

    def _decide(self, now_ns: int) -> bool:
        """Admit what arrived and plan the next iteration; False if there is nothing to do now."""
        if self._repetitions:
            self._repetitions -= 1
            self._step.begin_repetition(now_ns)
            return True
        if self._known_ns is not None:
            if self._decide_ahead(now_ns, self._known_ns):
                return True
            self._known_ns, self._is_behind = None, False
        if self._arrivals.inbox:
            self._admit_arrivals()
        if self._state.running or self._state.waiting:
            return self._ask_once(now_ns) or self._ask_again(now_ns)
        self._step.begin(now_ns)
        return False

    def _decide_ahead(self, now_ns: int, known_ns: int) -> bool:
        """Decide as of `known_ns`, as async scheduling does while the iteration that just ended ran.

        Only what had arrived by then is seen; a request that finished just now is not scheduled
        again (its last token could be foreseen), but its slot and blocks are still taken. A plan that
        comes out empty is made again with all that is known: the pipeline ran dry.
        Source: vLLM's AsyncScheduler and EngineCore.step_with_batch_queue.
        """
        state = self._state
        self._admit_arrivals(known_ns)
        self._is_behind = bool(state.leaving or self._arrivals.inbox)
        planned = (len(state.running) > len(state.leaving) or bool(state.waiting)) and self._ask_once(now_ns)
        for request in list(state.leaving):
            state.release_leaving(request)
        return planned

    def _admit_arrivals(self, until_ns: int | None = None) -> None:
        # A rejection may release the next request at once, hence the loop.
        arrivals, oracle = self._arrivals, self._settings.oracle
        while arrivals.inbox and (arrived := arrivals.take(until_ns)):
            for request in arrived:
                self._admit_arrival(RequestState(request, oracle))

    def _admit_arrival(self, request: RequestState) -> None:
        self._recorder.arrived(request)
        reason = self._never_fits(request)
        if reason is not None:
            self._recorder.rejected(request, reason)
            self._arrivals.completed(request.row)
            return
        self._state.waiting.add(request)
        if self._on_arrival is not None:
            self._ask_policy(self._on_arrival, request)

    def _never_fits(self, request: RequestState) -> str | None:
        total = request.prompt_tokens + request._output_tokens
        limit = self._settings.max_model_len
        if limit is not None and total > limit:
            return (
                f"prompt {request.prompt_tokens} + output {request._output_tokens} tokens "
                f"exceed max_model_len {limit}"
            )
        kv = self._state.kv
        blocks = kv.blocks_for(total - 1)
        if kv.num_blocks is not None and blocks > kv.num_blocks:
            return f"needs {blocks} KV blocks at its longest; the cache has {kv.num_blocks}"
        return None

    def _ask_once(self, now_ns: int) -> bool:
        """Let the policy decide; False if it scheduled nothing."""
        step = self._step
        step.begin(now_ns)
        self.policy_calls += 1
        self.in_policy = True
        try:
            self._plan(step)
        except (Exception, SystemExit) as error:
            raise self._blamed(error) from error
        self.in_policy = False
        if step.some_decodes:
            step.finish_planning()
        elif not (step.all_decodes or step.chunks):
            return False
        self._fruitless_wakes = 0
        if step.iterations > 1 and self._can_repeat():
            self._repetitions = step.iterations - 1
        return True

    def _ask_again(self, now_ns: int) -> bool:
        """A step that only preempted has freed blocks: the next one may admit."""
        step = self._step
        for _ in range(len(self._state.running) + 1):
            if not step.preempted:
                break
            if self._ask_once(now_ns):
                return True
        self._fruitless_wakes += 1
        if step.wake_ns is None or step.wake_ns <= now_ns or self._fruitless_wakes > MAX_WAKES:
            raise StalledError(self._stall_message())
        return False

    def _can_repeat(self) -> bool:
        """Whether the plan is only decodes, and all its repetitions find their blocks."""
        step, state = self._step, self._state
        if not step.all_decodes or step.chunks or step.is_padded:
            return False
        blocks = state.decodes.blocks_to_grow(1, step.iterations - 1) if state.memory.grows else 0
        return blocks <= state.kv.free_blocks

    def _ask_policy(self, method: Callable[[T], None], argument: T) -> None:
        """Tell the policy; whatever goes wrong in it is reported with the iteration's number."""
        self.in_policy = True
        try:
            method(argument)
        except (Exception, SystemExit) as error:
            raise self._blamed(error) from error
        self.in_policy = False

    def _blamed(self, error: BaseException) -> SimError:
        """What to raise for `error`, which came out of the policy's code."""
        if isinstance(error, SimError):
            return type(error)(f"{self._iteration_name()}: {error}")
        place = traceback.extract_tb(error.__traceback__)[-1]
        return PolicyError(
            f"{self._iteration_name()}: the policy raised {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno})"
        )

    def _iteration_name(self) -> str:
        return f"iteration {self._recorder.num_iterations} at {self._env.now / 1e9:.6f} s"

    def _stall_message(self) -> str:
        state = self._state
        return (
            f"{self._iteration_name()}: the policy scheduled nothing with "
            f"{len(state.waiting)} waiting and {len(state.running)} running requests "
            f"(first refusal: {self._step.blocked_by or 'none, it asked for nothing'})"
        )

    def _until_something_happens(self) -> simpy.Event:
        """The next arrival, or the time at which the policy wants to be asked again."""
        bell = self._arrivals.bell()
        wake_ns = self._step.wake_ns
        if wake_ns is None:
            return bell
        return bell | self._env.timeout(wake_ns - self._env.now)

    def _commit(self, end_ns: int, jump: Jump | None) -> None:
        """Give every scheduled request its tokens, and let the finished ones go."""
        step, state = self._step, self._state
        if self._plans_ahead:
            self._known_ns = step.now_ns if jump is None else jump.last_start_ns
        finished: list[RequestState] = []
        if step.all_decodes:
            finished = state.decodes.advance_all(end_ns, jump)
        elif step.some_decodes:
            finished = state.decodes.advance_some(step.some_decodes, end_ns)
        if step.chunks:
            self._advance_prefills(end_ns, finished)
        if self._on_tokens is not None:
            self._ask_policy(self._on_tokens, step)
        if finished:
            self._let_go(finished, end_ns)
        if state.held and self._batch_ended():
            state.release_held()

    def _advance_prefills(self, end_ns: int, finished: list[RequestState]) -> None:
        """The chunks are in KV; those that are finished by the token of their last one join `finished`."""
        for request, tokens in self._step.chunks.items():
            request.prefilled_tokens += tokens
            if request.prefilled_tokens == request.prefill_tokens:
                self._end_prefill(request, end_ns, finished)
        if len(finished) > 1:
            finished.sort(key=by_admission)

    def _batch_ended(self) -> bool:
        """Whether the finished requests that were held may go: with their batch, or a decision is due."""
        if not self._state.decoding:
            self._repetitions = 0
        if self._holds_finished:
            return not (self._state.decoding or self._state.prefilling)
        return not self._repetitions

    def _end_prefill(self, request: RequestState, end_ns: int, finished: list[RequestState]) -> None:
        """The last chunk yields a token: the first, or after a preemption the next."""
        self._recorder.prefill_token(end_ns)
        if self._tokens is not None:
            self._tokens.add(request, end_ns)
        if request.first_token_ns is None:
            request.first_token_ns = end_ns
        else:
            assert request._last_token_ns is not None
            gap = end_ns - request._last_token_ns
            self._recorder.gaps.add(gap, 1)
            request._max_tbt_ns = max(gap, request._max_tbt_ns or 0)
        request._last_token_ns = end_ns
        request._generated += 1
        if request._generated == request._output_tokens:
            finished.append(request)
        else:
            self._state.start_decoding(request)

    def _let_go(self, finished: list[RequestState], end_ns: int) -> None:
        """`finished` have got their last token."""
        state, recorder = self._state, self._recorder
        for request in finished:
            if self._holds_finished or self._repetitions:
                state.hold_finished(request)
            elif self._plans_ahead:
                state.finish_late(request)
            else:
                state.finish(request)
            recorder.finished(request, end_ns)
            self._arrivals.completed(request.row)
        if self._settings.progress is not None:
            self._settings.progress(recorder.num_left, recorder.num_requests)
