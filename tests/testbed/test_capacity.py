"""Capacity: the search, what a rate is held against, and answers that say when they are not the policy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.api.bench import Bench, unsteady
from sim.api.bisection import Found, highest_passing
from sim.api.capacity import Trial, limits_of, unused_objectives
from sim.api.comparison import line_up
from sim.api.inputs import build_inputs
from sim.config import Config
from tests.worlds import LinearCost, serve

RATES = st.floats(0.01, 1000)


@given(threshold=RATES, start=RATES)
def test_the_search_closes_in_on_a_threshold(threshold: float, start: float) -> None:
    found = highest_passing(lambda r: r <= threshold, start, precision=0.025, lowest=1e-3, highest=1e4)
    assert found.low is not None and found.high is not None
    assert found.low <= threshold < found.high <= found.low * 1.025
    assert found.surprises == []
    assert len(found.tried) < 40


def test_a_search_that_ends_at_its_range_says_so() -> None:
    def search(threshold: float) -> Found:
        return highest_passing(lambda r: r <= threshold, 10, precision=0.1, lowest=1, highest=100)

    assert search(1000).low == 100 and search(1000).high is None
    assert search(0.5).low is None and search(0.5).high == 1
    assert max(search(1000).tried) == 100 and min(search(0.5).tried) == 1


def test_no_rate_is_tried_twice() -> None:
    seen: list[float] = []

    def passes(rate: float) -> bool:
        seen.append(rate)
        return rate < 7

    highest_passing(passes, 1, precision=0.01, lowest=0.1, highest=100)
    assert len(seen) == len(set(seen))


def test_what_passes_again_or_fails_early_is_reported() -> None:
    found = highest_passing(lambda r: r < 10 or 11 < r < 12, 9, precision=0.01, lowest=1, highest=100)
    assert found.low == pytest.approx(10, rel=0.01)
    assert found.surprises and all(11 < rate < 12 for rate in found.surprises)
    found = highest_passing(lambda r: r < 10 and not 8 < r < 9.2, 9.5, precision=0.01, lowest=1, highest=100)
    assert all(8 < rate < 9.2 for rate in found.surprises) and found.surprises


SERVICE_S = 0.01


def config(**overrides: Any) -> Config:
    """One request at a time, each one iteration of 10 ms, arriving at equal distances."""
    spec: dict[str, Any] = {
        "trace": {"synthetic": {
            "num_requests": 400, "prompt_tokens": 1, "output_tokens": 1,
            "arrivals": {"process": "constant", "rate_per_s": 10.0},
        }},
        "cost_model": {
            "kind": "coefficients",
            "decode": {"base_us": 10_000, "per_sequence_us": 0, "per_context_token_us": 0},
            "mixed": {
                "base_us": 10_000, "per_token_us": 0, "per_sequence_us": 0, "per_context_token_us": 0,
                "per_attention_pair_us": 0,
            },
        },
        "kv_cache": {"num_blocks": "unlimited"},
        "policy": {"name": "continuous", "max_batch_size": 1},
        "capacity": {"limits": {"queue_s.p50": 0.2}, "arrivals": "trace"},
    }  # fmt: skip
    return sim.load_config(spec, overrides)


def test_equal_gaps_before_one_server_have_the_capacity_of_its_arithmetic() -> None:
    """Request k waits k * (service - gap): the median of 400 is 0.2 s at a gap of service - 0.2 / 199.5."""
    frame = sim.capacity(config(), ["continuous"])
    row = frame.iloc[0]
    expected = 1 / (SERVICE_S - 0.2 / 199.5)
    assert row["capacity_per_s"] <= expected <= row["fails_at_per_s"] <= row["capacity_per_s"] * 1.025
    assert row["bound_per_s"] == pytest.approx(1 / SERVICE_S, rel=1e-3)


def test_more_than_any_policy_can_sustain_is_the_traces_doing() -> None:
    row = sim.capacity(config(), ["continuous"]).iloc[0]
    assert row["limited_by"] == "trace"
    assert "no policy can sustain more than 100/s" in row["note"]


def test_a_longer_trace_comes_nearer_to_what_can_be_sustained() -> None:
    longer = config(**{"trace.synthetic.num_requests": 10_000})
    row = sim.capacity(longer, ["continuous"]).iloc[0]
    assert row["capacity_per_s"] == pytest.approx(100, rel=0.026)


def test_the_end_of_the_bracket_is_told_from_an_answer() -> None:
    row = sim.capacity(config(**{"capacity.max_rate_per_s": 50}), ["continuous"]).iloc[0]
    assert (row["capacity_per_s"], row["limited_by"]) == (50, "bracket")
    assert "passes even at 50/s, the highest rate tried" in row["note"]
    row = sim.capacity(config(**{"capacity.min_rate_per_s": 300}), ["continuous"]).iloc[0]
    assert row["capacity_per_s"] is None and row["limited_by"] == "bracket"
    assert "fails even at 300/s, the lowest rate tried" in row["note"]


def test_defaults_are_those_of_sarathi_serve_and_need_a_tbt_slo() -> None:
    asked = config(**{"capacity.limits": {}})
    with pytest.raises(sim.UserError, match=r"slo\.tbt_s: is needed to look for a capacity"):
        sim.capacity(asked, ["continuous"])
    asked = config(**{"capacity.limits": {}, "slo.tbt_s": 0.1, "trace.synthetic.num_requests": 50})
    assert {"tbt_s.p99", "queue_s.p50"} <= set(sim.capacity(asked, ["continuous"]).columns)


def test_every_objective_of_the_slo_is_a_limit_or_is_named_as_not_looked_at() -> None:
    slo = {"slo.ttft_s": 1.0, "slo.tbt_s": 0.1, "slo.classes": {"chat": {"ttft_s": 0.5}}}
    asked = config(**{"capacity.limits": {}, **slo})
    limits = limits_of(asked)
    assert limits == {"tbt_s.p99": 0.1, "queue_s.p50": 2.0}
    assert unused_objectives(asked, limits) == ["slo.ttft_s", "slo.classes"]
    without_tbt = config(**{"capacity.limits": {}, "slo.ttft_s": 1.0, "slo.e2e_s": 9.0})
    assert limits_of(without_tbt) == {"ttft_s.p99": 1.0, "e2e_s.p99": 9.0, "queue_s.p50": 2.0}
    assert unused_objectives(asked, {"tbt_s.p99": 0.2}) == ["slo.ttft_s", "slo.classes"]
    assert unused_objectives(asked, {"slo_attainment": 0.9}) == []


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"tbt.p99": 1.0}, "capacity.limits: no such metric 'tbt.p99'; the summary has no 'tbt'"),
        ({"tbt_s.p98": 1.0}, "capacity.limits: no such metric 'tbt_s.p98'; tbt_s has no 'p98'"),
        ({"tbt_s": 1.0}, "capacity.limits: 'tbt_s' is not a number of the summary"),
    ],
)
def test_a_limit_on_no_metric_is_answered(limits: dict[str, float], said: str) -> None:
    with pytest.raises(sim.UserError) as raised:
        sim.capacity(config(), ["continuous"], limits=limits)
    assert said in str(raised.value)


def test_attainment_is_a_least_value() -> None:
    asked = config(**{"slo.ttft_s": 0.05, "capacity.arrivals": "poisson"})
    row = sim.capacity(asked, ["continuous"], limits={"slo_attainment": 0.9}).iloc[0]
    assert row["slo_attainment"] >= 0.9
    failing = row["fails_at_per_s"]
    trials = sim.capacity(asked, ["continuous"], limits={"slo_attainment": 0.9}).attrs["trials"]
    assert trials.set_index("rate_per_s").loc[failing, "slo_attainment"] < 0.9


def test_a_closed_loop_has_no_rate() -> None:
    with pytest.raises(sim.UserError, match=r"trace\.closed_loop: a closed loop has no arrival rate"):
        sim.capacity(config(**{"trace.closed_loop.concurrency": 2}), ["continuous"])


def test_every_policy_and_rate_sees_the_same_requests_and_random_numbers() -> None:
    asked = config(**{"capacity.arrivals": "poisson"})
    first, second = (Bench(c, build_inputs(c.config)) for c in line_up(asked, ["continuous", "static"], 1))
    assert first.at(5.0).hash == second.at(5.0).hash
    slow, fast = first.at(5.0).arrival_ns, first.at(10.0).arrival_ns
    assert slow == pytest.approx(2 * fast, abs=2)


def test_each_seed_has_a_row_and_each_trial_is_told() -> None:
    told: list[Trial] = []
    asked = config(**{"capacity.arrivals": "poisson", "trace.synthetic.num_requests": 60})
    frame = sim.capacity(asked, ["continuous", "static"], seeds=2, on_trial=told.append)
    assert frame[["policy", "seed"]].values.tolist() == [
        ["continuous", 0], ["static", 0], ["continuous", 1], ["static", 1]
    ]  # fmt: skip
    assert len(told) == frame["trials"].sum() == len(frame.attrs["trials"])


def test_a_run_that_is_over_at_once_is_no_steady_state() -> None:
    record = serve([(0, 5, 50)] * 10, "continuous", LinearCost(base=100))
    assert "within 0.0 times the median latency" in (unsteady(record) or "")


def test_requests_that_pile_up_are_no_steady_state() -> None:
    overloaded = [(50 * k, 1, 1) for k in range(400)]
    one_at_a_time = {"max_batch_size": 1}
    record = serve(overloaded, "continuous", LinearCost(base=60), one_at_a_time)
    assert "pile up" in (unsteady(record) or "") or "median latency" in (unsteady(record) or "")
    record = serve(overloaded, "continuous", LinearCost(base=40), one_at_a_time)
    assert unsteady(record) is None


def attained() -> Any:
    asked = config(**{"slo.ttft_s": 0.03, "capacity.arrivals": "poisson"})
    return sim.attainment(asked, ["continuous"], rates=[20, 60, 100, 140])


def test_attainment_falls_with_the_rate_and_goodput_has_a_best_one() -> None:
    frame = attained()
    assert {20, 60, 100, 140} < set(frame["rate_per_s"])
    assert (np.diff(frame["slo_attainment"]) <= 0).all()
    assert (frame["goodput"] <= frame["throughput.requests_per_s"] + 1e-9).all()
    best = sim.best_goodput(frame).iloc[0]
    assert best["goodput"] == frame["goodput"].max()
    assert best["from_per_s"] <= best["rate_per_s"] <= best["to_per_s"]
    assert math.isclose(best["rate_per_s"], frame.loc[frame["goodput"].idxmax(), "rate_per_s"])


def test_attainment_needs_an_objective() -> None:
    with pytest.raises(sim.UserError, match="slo: is needed"):
        sim.attainment(config(), ["continuous"])
