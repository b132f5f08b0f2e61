"""Explanations worked out by hand: one small timeline a cause."""

import pytest

from sim.core.errors import UserError
from sim.core.record import RunRecord
from sim.report.explain import Explainer, Explanation, frame
from tests.worlds import LinearCost, serve

COST = LinearCost(base=10, per_prefill_token=1)
"""An iteration takes 10 ns, and 1 ns more a prefill token; decodes alone take 10."""


def explained(rows: list[tuple[int, int, int]], policy: str, **settings: object) -> Explainer:
    params = settings.pop("params", {"max_batch_size": 8})
    record: RunRecord = serve(rows, policy, COST, params, record_events=True, **settings)  # type: ignore[arg-type]
    return Explainer(record)


def parts(one: Explanation) -> dict[tuple[str, str | None], int]:
    return {(part.cause, part.by): part.ns for part in one.parts}


def test_a_stall_is_the_other_requests_prefill() -> None:
    # 0: prefill until 14. At 14 request 1 has come: [14, 124) is its 100 prompt tokens and one decode.
    one = explained([(0, 4, 3), (5, 100, 1)], "continuous").worst("tbt", 1)[0]
    assert (one.request_id, one.token, one.start_ns, one.end_ns) == ("0", 2, 14, 124)
    assert parts(one) == {("other_prefill", "1"): 100, ("decode", None): 10}


def test_a_stall_without_decodes_is_all_prefill() -> None:
    # prefill_first gives the prompt an iteration of its own, [14, 124), then decodes until 134.
    one = explained([(0, 4, 3), (5, 100, 1)], "prefill_first").worst("tbt", 1)[0]
    assert (one.start_ns, one.end_ns) == (14, 134)
    assert parts(one) == {("other_prefill", "1"): 110, ("decode", None): 10}


def test_waiting_for_a_slot() -> None:
    # 0 runs until 34; 1 came at 5, was first seen at 14, and is prefilled in [34, 50).
    one = explained([(0, 4, 3), (5, 6, 1)], "continuous", params={"max_batch_size": 1}).request("1")[0]
    assert parts(one) == {("iteration", "0"): 9, ("slots", None): 20, ("prefill", None): 16}


def test_behind_another_in_line_for_a_slot() -> None:
    rows = [(0, 4, 3), (5, 6, 1), (6, 6, 1)]
    one = explained(rows, "continuous", params={"max_batch_size": 1}).request("2")[0]
    # Until 34 request 1 stands in front; in [34, 50) it is prefilled, and 2 is itself the first refused.
    assert parts(one) == {
        ("iteration", "0"): 8,
        ("slots", "1"): 20,
        ("slots", None): 16,
        ("prefill", None): 16,
    }


def test_waiting_for_kv() -> None:
    # 4 blocks of 2: request 0 holds 3 until it is finished at 25; 1 needs 2.
    one = explained([(0, 5, 2), (5, 4, 1)], "continuous", num_blocks=4, block_size=2).request("1")[0]
    assert parts(one) == {("iteration", "0"): 10, ("kv", None): 10, ("prefill", None): 14}


def test_waiting_for_budget_and_in_chunks() -> None:
    # Budget 4: request 0 takes [0, 14) and [14, 28) with all of it; 1 gets its turn in [28, 42).
    rows, params = [(0, 8, 1), (0, 4, 1)], {"token_budget": 4, "max_batch_size": 8}
    one = explained(rows, "stall_free", params=params).request("1")[0]
    assert parts(one) == {("budget", "0"): 28, ("prefill", None): 14}


def test_preempted_for_another() -> None:
    # Blocks of 2, 4 of them. Both prefill until 16 with 2 blocks each (3 tokens, then the 4th fits).
    # At 26 request 0 needs a third: 1, admitted last, gives way until 0 is finished at 36 + 10.
    explainer = explained([(0, 3, 4), (0, 3, 4)], "continuous", num_blocks=4, block_size=2)
    one = explainer.request("1", top=1)[1]
    assert (one.token, one.start_ns, one.end_ns) == (3, 26, 61)
    assert parts(one) == {("preempted", "0"): 20, ("recompute", None): 15}


def test_the_replica_waits_for_a_fuller_batch() -> None:
    params = {"max_batch_size": 4, "max_wait_s": 1e-7}
    one = explained([(0, 5, 1)], "static", params=params).request("0")[0]
    assert parts(one) == {("idle", None): 100, ("prefill", None): 15}


def test_front_end_delay() -> None:
    one = explained([(0, 5, 1)], "continuous", front_end_ns=7).request("0")[0]
    assert parts(one) == {("front_end", None): 7, ("prefill", None): 15}


def test_swapped_out_and_in_again() -> None:
    explainer = explained(
        [(0, 3, 4), (0, 3, 4)], "continuous", num_blocks=4, block_size=2, swap_ns_per_block=1
    )
    one = explainer.request("1", top=1)[1]
    # 4 entries are 2 blocks: 2 ns out in the first of the two iterations it sits out, 2 ns in again.
    assert parts(one) == {("preempted", "0"): 22, ("swap", None): 2, ("decode", None): 10}


def test_a_gap_that_many_share_counts_once() -> None:
    explainer = explained([(0, 4, 4), (0, 4, 4), (30, 100, 1)], "continuous")
    longest, second = explainer.worst("tbt", 2)
    assert (longest.request_id, longest.shared_by) == ("0", 2)
    assert second.end_ns != longest.end_ns


def test_unknown_requests_and_latencies_are_the_users_errors() -> None:
    explainer = explained([(0, 4, 1), (0, 90, 20)], "continuous", max_model_len=100)
    with pytest.raises(UserError, match="no request '7' in this run"):
        explainer.request("7")
    with pytest.raises(UserError, match="request 1 has no latency to explain: prompt 90"):
        explainer.request("1")
    with pytest.raises(UserError, match="unknown latency 'itl': did you mean 'tbt'"):
        explainer.worst("itl")
    with pytest.raises(UserError, match="tbt: the run has none"):
        explainer.percentile("tbt", 50)
    with pytest.raises(UserError, match="between 0 and 100, got 101"):
        explainer.percentile("ttft", 101)


def test_frame_has_one_row_a_cause() -> None:
    table = frame(explained([(0, 4, 3), (5, 100, 1)], "continuous").worst("tbt", 1))
    assert table["cause"].tolist() == ["other_prefill", "decode"]
    assert table["by"].tolist() == ["1", None]
    assert table["seconds"].sum() == pytest.approx(table["length_s"].iloc[0])
