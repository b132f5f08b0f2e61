"""The teaching interface: a course's scheduler class runs unchanged, and its mistakes are named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.errors import PolicyError
from sim.core.trace import Trace
from sim.engine.teaching import TeachingAdapter, is_teaching_scheduler
from tests.engine import taught_schedulers as taught
from tests.worlds import FINE_COSTS, LinearCost, serve, traces

ROWS = [(0, 7, 3), (0, 2, 2), (0, 1, 4)]


@settings(max_examples=150, deadline=None)
@given(traces(st.integers(0, 3000)), FINE_COSTS, st.integers(1, 6), st.integers(0, 12))
def test_a_correct_course_scheduler_gives_the_token_times_of_stall_free(
    trace: Trace, cost: LinearCost, max_batch_size: int, spare: int
) -> None:
    """With unlimited KV and a budget that no number of decodes exceeds."""
    token_budget = max_batch_size + spare
    ours = serve(trace, "stall_free", cost, {"token_budget": token_budget, "max_batch_size": max_batch_size})
    adapter = TeachingAdapter(taught.CourseScheduler, token_budget, max_batch_size)
    theirs = serve(trace, adapter, cost, num_blocks=1)
    assert theirs.token_times == ours.token_times
    assert theirs.kv_peak_blocks == ours.kv_peak_blocks
    assert theirs.num_blocks is None


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (taught.NamesAStranger, r"iteration 0 .*'nobody', which is unknown or finished"),
        (taught.SchedulesTwice, r"iteration 0 .*request '0' twice"),
        (taught.IgnoresTheBudget, r"iteration 0 .*9 tokens; the token_budget is 4"),
        (taught.IgnoresTheBatchSize, r"iteration 2 .*max_batch_size 2"),
        (taught.NeverSchedules, r"iteration 0 .*scheduled nothing with 3 waiting"),
        (taught.ForgetsItsProgress, r"iteration 1 .*4 tokens of request '0'; between 1 and 3"),
        (taught.Raises, r"iteration 0 .*raised ZeroDivisionError: no tokens .*taught_schedulers.py"),
        (taught.CountsTokens, r"iteration 0 .*CountsTokens: the tokens .* a list of token ids, got 4"),
        (taught.ReturnsTuples, r"iteration 0 .*must return items with .*has no request_id"),
        (taught.DecodesTooEarly, r"iteration 0 .*as a decode, but its prefill is not done"),
    ],
)
def test_mistakes_are_named_with_the_iteration(scheduler: type, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        serve(ROWS, TeachingAdapter(scheduler, 4, 2), LinearCost(base=1))


def test_the_class_is_recognised_by_its_methods() -> None:
    assert is_teaching_scheduler(taught.CourseScheduler)
    assert not is_teaching_scheduler(taught.Item)
    assert not is_teaching_scheduler(taught.CourseScheduler(1, 1))
