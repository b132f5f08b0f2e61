"""A policy that raises, stalls, spins or breaks a rule ends the run with one clear error."""

from typing import Any

import pytest

from sim.core.errors import PolicyError, StalledError
from tests.worlds import LinearCost, serve

COST = LinearCost(base=10)
ROWS = [(0, 4, 3), (0, 4, 3)]


class Scripted:
    """A policy made of one function."""

    def __init__(self, plan: Any, **attributes: Any) -> None:
        self.plan = plan
        self.__dict__.update(attributes)


def test_scheduling_nothing_with_work_pending() -> None:
    with pytest.raises(StalledError, match=r"iteration 0 at .* 2 waiting and 0 running .*asked for nothing"):
        serve(ROWS, Scripted(lambda step: None), COST)


def test_being_refused_and_giving_up_says_why() -> None:
    def plan(step: Any) -> None:
        step.schedule(next(iter(step.waiting)), 4)

    with pytest.raises(StalledError, match="first refusal: budget"):
        serve(ROWS, Scripted(plan, token_budget=3), COST)


def test_being_refused_for_ever() -> None:
    def plan(step: Any) -> None:
        while not step.schedule(next(iter(step.waiting)), 4):
            pass

    with pytest.raises(StalledError, match="refused 1000005 times in one decision"):
        serve(ROWS, Scripted(plan, token_budget=3), COST)


def test_spinning_for_ever() -> None:
    def plan(step: Any) -> None:
        while True:
            pass

    with pytest.raises(StalledError, match=r"has not returned for 0\.2 s"):
        serve(ROWS, Scripted(plan), COST, policy_timeout_s=0.2)


def test_reading_the_true_output_length() -> None:
    def plan(step: Any) -> None:
        for request in step.waiting:
            assert request.output_tokens == 3
            step.schedule(request)
        step.decode_all()

    with pytest.raises(PolicyError, match=r"request 0: .*output_tokens.*policy\.oracle"):
        serve(ROWS, Scripted(plan), COST)
    assert serve(ROWS, Scripted(plan), COST, oracle=True).output_tokens_emitted == 6


def test_scheduling_a_request_twice() -> None:
    def plan(step: Any) -> None:
        request = next(iter(step.waiting))
        step.schedule(request)
        step.schedule(request)

    with pytest.raises(PolicyError, match="request 0 was scheduled twice"):
        serve(ROWS, Scripted(plan), COST)


def test_preempting_what_does_not_run() -> None:
    with pytest.raises(PolicyError, match="request 0 is not running"):
        serve(ROWS, Scripted(lambda step: step.preempt(next(iter(step.waiting)))), COST)


def test_waking_in_the_past_is_a_stall() -> None:
    with pytest.raises(StalledError):
        serve(ROWS, Scripted(lambda step: step.wake_at(step.now_ns)), COST)
