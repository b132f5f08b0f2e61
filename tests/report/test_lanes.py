"""What the timeline shows, read back from iterations and requests, against what really happened."""

from __future__ import annotations

import numpy as np
import pytest

from sim.report.metrics import summarize
from sim.report.plots.lanes import (
    MOST_LANES,
    Stall,
    lanes_in,
    longest_gap,
    naive_of,
    steps_in,
    telling_window,
    worst_stall,
)
from sim.report.view import view_of
from tests.report.records import Served, record_of
from tests.report.runs import POLICIES, real_record, real_view, small_trace

S = 1_000_000_000


def stalled_view():
    """Two decodes at 1 s an iteration; from 3 to 8 two prefills have the GPU; then both go on."""
    record = record_of(
        Served(0.0, [1.0, 2.0, 3.0, 9.0, 10.0]),
        Served(0.0, [1.0, 2.0, 3.0, 9.0]),
        Served(2.5, [5.0]),
        Served(2.5, [8.0]),
    )
    rows = [
        [0, 1, 0, 2, 20, 0, 0, 0, 1],
        [1, 2, 2, 0, 0, 0, 0, 0, 2],  # a jump over two decode iterations
        [3, 2, 0, 1, 10, 0, 0, 0, 1],
        [5, 3, 0, 1, 10, 0, 0, 0, 1],
        [8, 1, 2, 0, 0, 0, 0, 0, 1],
        [9, 1, 1, 0, 0, 0, 0, 0, 1],
    ]
    record.iterations = np.array(rows) * np.array([S, S, 1, 1, 1, 1, 1, 1, 1])
    summary = summarize(record, slo=None, provenance={})
    return view_of(record, name="continuous", config={}, summary=summary)


def test_the_worst_stall_is_where_decodes_waited_for_prefills():
    view = stalled_view()
    assert worst_stall(view) == Stall(3.0, 9.0, 2)
    assert telling_window([view]) == (5.5 - 0.42 * 8 + 0.5, 5.5 - 0.42 * 8 + 8.5)


def test_the_longest_gap_here_may_be_any_wait_for_a_token():
    view = stalled_view()
    early, late = (1.0, 2.5), (2.5, 20.0)
    assert longest_gap(view, early, steps_in(view, early)) == Stall(2.0, 3.0, 2)
    assert longest_gap(view, late, steps_in(view, late)) == Stall(3.0, 9.0, 2)


def test_the_iterations_of_a_jump_are_spaced_evenly():
    steps = steps_in(stalled_view(), (1.5, 2.5))
    assert steps.start_s.tolist() == [1.0, 2.0, 3.0, 5.0, 8.0]
    assert steps.num_decodes.tolist() == [2, 2, 0, 0, 2]


def test_a_gap_across_the_windows_edge_is_whole():
    view, window = stalled_view(), (4.0, 7.0)
    lanes = {lane.request_id: lane for lane in lanes_in(view, window, steps_in(view, window))}
    assert lanes["0"].tokens_s.tolist() == [1.0, 2.0, 3.0, 9.0]
    assert lanes["2"].tokens_s.tolist() == [5.0]


@pytest.mark.parametrize("policy", POLICIES)
def test_tokens_read_from_the_folder_are_the_tokens_that_were_made(policy):
    """Every token of every request, where nothing is preempted and the budget exceeds the decodes."""
    record, view = real_record(policy), real_view(policy)
    whole = (0.0, 1e6)
    steps = steps_in(view, whole)
    for row in range(len(small_trace())):
        one = view.requests[view.requests["request_id"] == str(row)]
        alone = type(view)(view.name, view.config, view.summary, one, view.iterations, view.tbt)
        (lane,) = lanes_in(alone, whole, steps)
        assert lane.tokens_s == pytest.approx(np.array(record.token_times[row]) / S, abs=1e-9)


def test_lanes_are_few_in_order_of_service_and_alive_in_the_window():
    view = real_view("continuous")
    window = telling_window([view])
    lanes = lanes_in(view, window, steps_in(view, window))
    assert 0 < len(lanes) <= MOST_LANES
    assert [lane.scheduled_s for lane in lanes] == sorted(lane.scheduled_s for lane in lanes)
    assert all(lane.arrival_s < window[1] and lane.finish_s > window[0] for lane in lanes)


def test_the_naive_run_is_continuous_or_else_the_one_with_the_worst_tail():
    views = {policy: real_view(policy) for policy in ("static", "continuous", "stall_free", "prefill_first")}
    assert naive_of(list(views.values())).name == "continuous"
    without = [views["static"], views["prefill_first"], views["stall_free"]]
    assert naive_of(without).name == "prefill_first"


def test_a_run_that_never_stalls_still_has_a_window():
    assert worst_stall(real_view("static")) is None
    assert telling_window([real_view("static")]) == (0.0, 3.0)
