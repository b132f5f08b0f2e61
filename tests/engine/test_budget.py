"""token_budget auto: the largest budget whose worst iteration keeps the objective."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.core.errors import ConfigError
from sim.engine.budget import largest_budget, worst_iteration_ns
from tests.worlds import FINE_COSTS, LinearCost


@given(FINE_COSTS, st.integers(1, 3000), st.integers(1, 6), st.integers(1, 40), st.integers(40, 90))
def test_it_is_the_largest(
    cost: LinearCost, limit: int, batch_size: int, max_context: int, kv_tokens: int
) -> None:
    limits = (batch_size, max_context, kv_tokens)
    budget = largest_budget(cost, limit, *limits)
    if budget is None:
        assert worst_iteration_ns(cost, 1, *limits) > limit
    else:
        assert worst_iteration_ns(cost, budget, *limits) <= limit
        assert budget >= max_context + batch_size or worst_iteration_ns(cost, budget + 1, *limits) > limit


def test_by_hand() -> None:
    """10 + 2 a prefill token, decodes free: (B tokens) 10 + 2 B <= 50 at B = 20."""
    assert largest_budget(LinearCost(base=10, per_prefill_token=2), 50, 4, 100, None) == 20


def test_the_run_keeps_the_objective_and_the_saved_config_has_the_number() -> None:
    overrides = {"policy.token_budget": "auto", "slo.tbt_s": 0.1, "trace.limit": 300, "compare": None}
    result = sim.run(sim.load_config("configs/quickstart.yaml", overrides))
    budget = result.summary["provenance"]["config"]["policy"]["token_budget"]
    assert budget > 100
    assert result.summary["tbt_s"]["max"] <= 0.1


def test_without_an_objective_it_is_an_error() -> None:
    overrides = {"policy.token_budget": "auto", "slo.tbt_s": None, "compare": None}
    with pytest.raises(ConfigError, match=r"auto needs slo\.tbt_s"):
        sim.run(sim.load_config("configs/quickstart.yaml", overrides))


def test_an_impossible_objective_is_an_error() -> None:
    overrides = {"policy.token_budget": "auto", "slo.tbt_s": 1e-6, "compare": None}
    with pytest.raises(ConfigError, match="auto found none"):
        sim.run(sim.load_config("configs/quickstart.yaml", overrides))
