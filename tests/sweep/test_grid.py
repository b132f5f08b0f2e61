"""The cells of a grid: their order, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.sweeps.grid import expand, parse_axis, plain_values

BUDGETS = {"policy.token_budget": [64, 128]}


@pytest.fixture
def config(tiny: Path) -> Any:
    return sim.load_config("config.yaml")


def test_cells_are_the_product_with_the_last_axis_fastest_and_seeds_fastest_of_all(config: Any) -> None:
    cells = expand(config, {**BUDGETS, "trace.rate_scale": [1.0, 2.0]}, seeds=2)
    assert [cell.index for cell in cells] == list(range(8))
    rows = [(*cell.point.values(), cell.seed) for cell in cells]
    assert rows[:5] == [(64, 1.0, 0), (64, 1.0, 1), (64, 2.0, 0), (64, 2.0, 1), (128, 1.0, 0)]
    assert [cell.config.policy.parameters["token_budget"] for cell in cells] == [64] * 4 + [128] * 4
    assert [cell.config.seed for cell in cells] == [0, 1] * 4


def test_a_grid_without_axes_is_one_cell_a_seed_from_the_configs_seed_on(tiny: Path) -> None:
    config = sim.load_config("config.yaml", {"seed": 7})
    assert [cell.config.seed for cell in expand(config, {}, seeds=3)] == [7, 8, 9]


def test_overrides_of_the_config_hold_in_every_cell(tiny: Path) -> None:
    config = sim.load_config("config.yaml", {"policy.max_batch_size": 3})
    assert {cell.config.policy.parameters["max_batch_size"] for cell in expand(config, BUDGETS, 1)} == {3}


def test_a_config_changed_since_it_was_read_is_swept_as_it_is_now(config: Any) -> None:
    changed = config.updated(kv_cache=config.kv_cache.updated(num_blocks=77))
    assert {cell.config.kv_cache.num_blocks for cell in expand(changed, BUDGETS, 1)} == {77}


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("a.b=1,2.5,x", ("a.b", [1, 2.5, "x"])),
        ("a.b=[0, 60],[60, 120]", ("a.b", [[0, 60], [60, 120]])),
        ("policy={name: a, n: 1},{name: b}", ("policy", [{"name": "a", "n": 1}, {"name": "b"}])),
        ("a=null,true,1e-3", ("a", [None, True, 0.001])),
    ],
)
def test_axis_values_are_yaml(text: str, axis: tuple[str, list[Any]]) -> None:
    assert parse_axis(text) == axis


@pytest.mark.parametrize("text", ["a.b", "=1", ""])
def test_an_axis_that_is_none_says_how_one_looks(text: str) -> None:
    with pytest.raises(sim.UserError, match=r"must look like section\.key=value,value"):
        parse_axis(text)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"policy.token_budgt": [1]}, "policy.token_budgt=1: unknown key: did you mean 'token_budget'"),
        ({"policy.token_budget": [64, 0]}, "policy.token_budget=0: must be at least 1, got 0"),
        ({"policy.token_budget": [64, "many"]}, "must be an integer"),
        ({"trace.rate_scale": [-1]}, "trace.rate_scale=-1: must be above 0"),
        ({"trace.nonsense.deep": [1]}, "unknown key"),
        ({"policy.name": ["stall_free", "stal_free"]}, "did you mean 'stall_free'"),
        ({"policy.token_budget": [64, 64]}, "grid policy.token_budget: 64 is there twice"),
        ({"policy.token_budget": []}, "must be a list of at least one value, got []"),
        ({"policy.token_budget": "64"}, "must be a list of at least one value, got '64'"),
        ({"policy.token_budget": 64}, "must be a list of at least one value, got 64"),
        ({"seed": [1, 2]}, "grid seed: cannot be swept: --seeds N"),
        ({"output.dir": ["a"]}, "grid output.dir: cannot be swept"),
        ({"compare.seeds": [1]}, "policy.name=a,b sweeps over policies"),
    ],
)
def test_a_wrong_key_or_value_is_named_before_anything_runs(
    config: Any, grid: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.sweeps.pool.run_cell", lambda task: pytest.fail("a cell ran"))
    with pytest.raises(sim.UserError) as caught:
        sim.sweep(config, grid, workers=1)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"trace.path": ["trace.csv", "trce.csv"]}, "did you mean trace.csv?"),
        ({"trace.format": ["auto", "azur"]}, "did you mean 'azure"),
        ({"kv_cache.num_blocks": ["auto"]}, "auto needs replica.model"),
        ({"policy.order": ["fcfs", "nearest"]}, "policy.order"),
        ({"cost_model": [{"file": "nope.yaml"}]}, "nope.yaml"),
    ],
)
def test_what_a_value_names_must_be_there(
    config: Any, grid: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.sweeps.pool.run_cell", lambda task: pytest.fail("a cell ran"))
    with pytest.raises(sim.UserError) as caught:
        sim.sweep(config, grid, workers=1)
    assert message in str(caught.value)


@pytest.mark.parametrize("seeds", [0, -1, 1.5, True])
def test_seeds_are_a_count(config: Any, seeds: Any) -> None:
    with pytest.raises(sim.UserError, match="seeds: must be an integer of at least 1"):
        sim.sweep(config, BUDGETS, seeds=seeds)


def test_values_may_be_numpys(config: Any) -> None:
    rates = plain_values(np.linspace(1, 2, 3))
    assert rates == [1.0, 1.5, 2.0]
    assert {type(value) for value in plain_values([np.int64(3), np.float64(2)])} == {int, float}
    assert len(expand(config, {"trace.rate_scale": rates}, 1)) == 3


def test_policies_with_other_parameters_are_one_axis_of_whole_sections(config: Any) -> None:
    sections = [
        {"name": "static", "max_batch_size": 2},
        {"name": "stall_free", "token_budget": 64, "max_batch_size": 2},
    ]
    frame = sim.sweep(config, {"policy": sections}, workers=1)
    assert frame["error"].isna().all()
    assert frame["policy"].str.contains("static").tolist() == [True, False]
