"""Laws that hold for every run of the oracle, whatever the numbers: what no hand-computed case can show."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.simulator import simulate

Requests = list[tuple[int, int, int]]
World = dict[str, Any]

POLICIES = ["static", "continuous", "prefill_first", "stall_free", "skip_ahead"]

triples = st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 12))
request_lists = st.lists(triples, min_size=1, max_size=12)
coefficients = st.tuples(st.integers(1, 20), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Settings with a cache so small that the paged rule preempts in about half of the runs."""
    base, per_token, per_decode, per_context = draw(coefficients)
    return {
        "token_budget": draw(st.integers(1, 64)),
        "max_batch_size": draw(st.integers(1, 6)),
        "num_blocks": draw(st.integers(1, 30)),
        "block_size": draw(st.integers(1, 8)),
        "memory": draw(st.sampled_from(["paged", "reserve"])),
        "watermark": draw(st.sampled_from([0.0, 0.1, 0.5])),
        "max_model_len": draw(st.sampled_from([None, 30])),
        "max_wait_ns": draw(st.sampled_from([0, 7])),
        "cost": lambda decodes, context, chunks: (
            base + per_token * sum(c for c, _ in chunks) + per_decode * decodes + per_context * context
        ),
    }


@pytest.mark.parametrize("policy", POLICIES)
@given(requests=request_lists, world=worlds())
def test_a_request_is_rejected_or_gets_each_token_once(policy: str, requests: Requests, world: World) -> None:
    result = simulate(requests, policy, **world)
    for row, (arrival, _, output) in enumerate(requests):
        times, started = result["token_times"][row], result["first_scheduled"][row]
        if row in result["rejected"]:
            assert (times, started, result["preemptions"][row]) == ([], None, 0)
        else:
            assert len(times) == output
            assert arrival <= started < times[0]
            assert all(a < b for a, b in pairwise(times))


@pytest.mark.parametrize("policy", POLICIES)
@given(requests=request_lists, world=worlds())
def test_limits_hold_in_every_iteration(policy: str, requests: Requests, world: World) -> None:
    result = simulate(requests, policy, **world)
    ends = 0
    for i in result["iterations"]:
        assert i["start"] >= ends
        ends = i["start"] + i["duration"]
        assert len(i["running"]) <= world["max_batch_size"]
        assert i["used"] <= world["num_blocks"]
        assert all(tokens > 0 for tokens, _ in i["chunks"])
        if policy == "stall_free":
            assert i["decodes"] + sum(tokens for tokens, _ in i["chunks"]) <= world["token_budget"]
        if policy == "prefill_first":
            assert not (i["decodes"] and i["chunks"])
    if world["memory"] == "reserve" or policy == "static":
        assert sum(result["preemptions"]) == 0


@pytest.mark.parametrize("policy", POLICIES)
@given(requests=request_lists, world=worlds(), shift=st.integers(1, 1000))
def test_shifting_arrivals_shifts_tokens(policy: str, requests: Requests, world: World, shift: int) -> None:
    plain = simulate(requests, policy, **world)
    later = simulate([(a + shift, p, o) for a, p, o in requests], policy, **world)
    assert later["token_times"] == [[t + shift for t in times] for times in plain["token_times"]]


@pytest.mark.parametrize("policy", POLICIES)
@given(requests=request_lists, world=worlds(), cut=st.integers(0, 60))
def test_the_past_does_not_know_the_future(policy: str, requests: Requests, world: World, cut: int) -> None:
    whole = simulate(requests, policy, **world)
    early = simulate([r for r in requests if r[0] <= cut], policy, **world)
    kept = [times for times, r in zip(whole["token_times"], requests, strict=True) if r[0] <= cut]
    for a, b in zip(kept, early["token_times"], strict=True):
        assert [t for t in a if t <= cut] == [t for t in b if t <= cut]


@pytest.mark.parametrize("policy", ["continuous", "prefill_first", "stall_free", "skip_ahead"])
@given(requests=request_lists, world=worlds())
def test_both_memory_rules_agree_when_memory_is_ample(policy: str, requests: Requests, world: World) -> None:
    world = world | {"num_blocks": 1000, "watermark": 0.0}
    paged, reserve = (simulate(requests, policy, **(world | {"memory": m})) for m in ("paged", "reserve"))
    assert paged["token_times"] == reserve["token_times"]
