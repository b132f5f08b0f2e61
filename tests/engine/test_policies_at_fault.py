"""A policy that raises, stalls, spins or breaks a rule ends the run with one clear error."""

from typing import Any

import pytest

from sim.core.errors import PolicyError, StalledError
from sim.core.registry import policy
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


def test_decoding_all_twice() -> None:
    def plan(step: Any) -> None:
        for request in step.waiting:
            step.schedule(request)
        step.decode_all()
        step.decode_all()

    with pytest.raises(PolicyError, match=r"iteration 1 .*decode_all was called twice"):
        serve(ROWS, Scripted(plan), COST)


@pytest.mark.parametrize("argument", [2.5, "2", None])
def test_arguments_that_are_no_integers_are_named_with_the_iteration(argument: Any) -> None:
    def plan(step: Any) -> None:
        if argument is None:
            step.wake_at(step.now_ns + 1e6)
        step.schedule(next(iter(step.waiting)), argument)

    with pytest.raises(PolicyError, match=r"iteration 0 .*TypeError: .*cannot be interpreted as an integer"):
        serve(ROWS, Scripted(plan), COST)


def test_leaving_the_process_is_no_way_out() -> None:
    def plan(step: Any) -> None:
        raise SystemExit(0)

    with pytest.raises(PolicyError, match=r"iteration 0 .*raised SystemExit: 0"):
        serve(ROWS, Scripted(plan), COST)


@pytest.mark.parametrize("step_ns", [1, 10**25])
def test_waking_for_ever_is_no_progress(step_ns: int) -> None:
    with pytest.raises(StalledError, match="scheduled nothing with 2 waiting"):
        serve(ROWS, Scripted(lambda step: step.wake_at(step.now_ns + step_ns)), COST)


def test_a_policy_class_without_plan() -> None:
    with pytest.raises(PolicyError, match=r"policy 'idle' has no method plan\(self, step\)"):

        @policy("idle")
        class Idle:
            max_batch_size: int = 1


def test_decodes_scheduled_one_by_one_before_all_of_them_cost_the_others_nothing() -> None:
    """Ten decodes under a budget of 12, three of them asked for by name: every one decodes every time."""

    def plan(step: Any) -> None:
        for request in step.decoding[:3]:
            step.schedule(request)
        step.decode_all()
        for request in step.waiting:
            step.schedule(request)

    record = serve([(0, 1, 5)] * 10, Scripted(plan, token_budget=12), COST)
    assert record.max_tbt_ns.tolist() == [10] * 10


def test_a_decode_may_still_be_preempted_after_decode_all() -> None:
    """With the longest as victim, a chunk that needs blocks can take a decode's."""
    rows = [(0, 6, 6), (3, 2, 2), (6, 9, 2), (9, 4, 2)]
    memory = {"num_blocks": 7, "block_size": 2, "victim": "longest"}
    for mode in ("fast", "reference"):
        record = serve(rows, "vllm_v1", COST, {"token_budget": 5}, mode=mode, **memory)
        assert record.output_tokens_emitted == 12
