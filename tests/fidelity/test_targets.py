"""Laws of the product: how far from the public measurements the predictions may be.

docs/fidelity.md says what each constant was fitted on and what the figures are today.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.api.closed_loop import validate_closed_loop
from sim.api.validation import validate

LLAMA = ("vllm-rtxpro6000-llama-3.1-8b", "rtxpro6000-llama-3.1-8b-tp1")
QWEN = ("vllm-rtxpro6000-qwen3-32b-tp2", "rtxpro6000-qwen3-32b-tp2")
NO_FITTED_CONSTANT = {"cost_model.host_overhead_us": 0}


def error_pct(data: Path, run: str, cost: Any, overrides: dict[str, Any] | None = None) -> float:
    report = validate(data / "ground_truth" / run, cost, overrides).report
    assert report["num_preemptions"] == 0
    error = report["mean_abs_error_pct"]
    assert isinstance(error, float)
    return error


@pytest.mark.parametrize(
    ("run", "overrides", "at_most"),
    [
        (LLAMA, {}, 2.0),
        (QWEN, {}, 1.5),
        (QWEN, NO_FITTED_CONSTANT, 1.5),
    ],
    ids=["llama, host time fitted on qwen", "qwen", "qwen, no fitted constant"],
)
def test_measured_runs_are_predicted_from_their_profiles(
    shared_data: Path, run: tuple[str, str], overrides: dict[str, Any], at_most: float
) -> None:
    assert error_pct(shared_data, run[0], shared_data / "profiles" / run[1], overrides) <= at_most


@pytest.mark.parametrize("run", [LLAMA, QWEN], ids=["llama", "qwen"])
def test_measured_runs_are_predicted_from_coefficients(shared_data: Path, run: tuple[str, str]) -> None:
    assert error_pct(shared_data, run[0], run[1]) <= 5.0


@pytest.mark.parametrize(
    "without",
    [
        {"cost_model.skew": False},
        {"cost_model.mixed_attention": "separate"},
        {"kv_cache.prefix_caching": False},
    ],
    ids=["skew", "mixed attention", "prefix caching"],
)
def test_mechanisms_earn_their_place(shared_data: Path, without: dict[str, Any]) -> None:
    run, profile = LLAMA[0], shared_data / "profiles" / LLAMA[1]
    assert error_pct(shared_data, run, profile, without) > error_pct(shared_data, run, profile) + 0.5


def test_closed_loop_points_are_predicted_from_operator_tables(shared_data: Path) -> None:
    points = shared_data / "ground_truth" / "inferencex" / "closed_loop.csv"
    report = validate_closed_loop(points).report
    free = report["not_kv_limited"]
    assert free["tpot"]["points"] == 68
    assert free["tpot"]["mape_pct"] <= 6.0
    assert free["ttft"]["mape_pct"] <= 15.0
