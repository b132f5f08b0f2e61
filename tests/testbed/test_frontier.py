"""Frontier: variants of policies, and those that no other beats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.api.frontier import LATENCIES, THROUGHPUT, undominated

NUMBERS = st.one_of(st.integers(0, 5).map(float), st.just(float("nan")))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=12))
def test_undominated_is_what_its_definition_says(points: list[tuple[float, float]]) -> None:
    more, less = np.array(points).T
    for place, (x, y) in enumerate(points):
        beaten = any(
            a >= x and b <= y and (a > x or b < y) for a, b in points if a == a and b == b
        )
        assert undominated(more, less)[place] == (x == x and y == y and not beaten)


def config(**overrides: Any) -> Any:
    spec = {
        "trace": {"synthetic": {
            "num_requests": 60, "prompt_tokens": {"distribution": "uniform", "min": 20, "max": 300},
            "output_tokens": 20, "arrivals": {"process": "poisson", "rate_per_s": 20.0},
        }},
        "cost_model": {
            "kind": "coefficients",
            "decode": {"base_us": 5000, "per_sequence_us": 20, "per_context_token_us": 0.1},
            "mixed": {
                "base_us": 5000, "per_token_us": 30, "per_sequence_us": 2, "per_context_token_us": 0.1,
                "per_attention_pair_us": 0.001,
            },
        },
        "kv_cache": {"num_blocks": 2000},
        "policy": {"name": "stall_free", "token_budget": 128, "max_batch_size": 16},
    }  # fmt: skip
    return sim.load_config(spec, overrides)


def test_every_policy_is_tried_at_every_knob_it_has() -> None:
    policies = ["stall_free", "continuous"]
    frame = sim.frontier(config(), policies, token_budgets=[64, 256], max_batch_sizes=[4, 16])
    found = frame[["policy", "token_budget", "max_batch_size"]].astype(object).where(frame.notna(), None)
    assert found.values.tolist() == [
        ["stall_free", 64, 4], ["stall_free", 64, 16], ["stall_free", 256, 4], ["stall_free", 256, 16],
        ["continuous", None, 4], ["continuous", None, 16],
    ]  # fmt: skip
    assert frame.attrs["rate_per_s"] > 0


def test_a_larger_budget_has_longer_gaps_and_more_throughput() -> None:
    frame = sim.frontier(config(), ["stall_free"], token_budgets=[32, 512])
    small, large = frame.iloc[0], frame.iloc[1]
    assert small["tbt_s.p99"] < large["tbt_s.p99"] and small[THROUGHPUT] < large[THROUGHPUT]
    assert frame["on_frontier.tbt_s.p99"].all()
    assert not small["on_frontier.ttft_s.p99"] and large["on_frontier.ttft_s.p99"]


def test_no_variant_is_above_the_bound() -> None:
    frame = sim.frontier(config(), ["stall_free", "prefill_first"], token_budgets=[64, 1024])
    assert (frame[THROUGHPUT] <= frame["bound"]).all()


def test_own_leaves_the_arrivals_of_the_trace() -> None:
    frame = sim.frontier(config(), ["stall_free"], token_budgets=[128], rate_per_s="own")
    plain = sim.run(config())
    assert frame.attrs["rate_per_s"] is None
    assert frame.iloc[0]["ttft_s.p99"] == plain.summary["ttft_s"]["p99"]


def test_a_budget_that_the_policy_does_not_take_is_answered() -> None:
    with pytest.raises(sim.UserError, match="token_budget: must be at least 1, got 0"):
        sim.frontier(config(), ["stall_free"], token_budgets=[0])


def test_columns_say_where_each_variant_stands() -> None:
    frame = sim.frontier(config(), ["stall_free"], token_budgets=[64])
    assert all(f"on_frontier.{name}" in frame for name in LATENCIES)
