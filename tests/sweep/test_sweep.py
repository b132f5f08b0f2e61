"""A sweep is its runs, one by one: the same numbers, in the grid's order, whoever ran them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import sim
from sim.sweeps import worker
from sim.sweeps.pool import DIED
from sim.sweeps.worker import Kept, metrics_of

ODD = Path(__file__).with_name("odd_policy.py")
GRID = {"policy.token_budget": [64, 512], "trace.rate_scale": [0.5, 1.0, 3.0]}


@pytest.fixture
def config(tiny: Path) -> Any:
    return sim.load_config("config.yaml")


@pytest.fixture
def odd(tiny: Path) -> Any:
    """The tiny config under a policy that raises or dies as `policy.deed` says."""
    values = yaml.safe_load(Path("config.yaml").read_text())
    values["policy"] = {"path": str(ODD), "name": "odd", "max_batch_size": 4}
    return sim.load_config(values)


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """Arguments of every call of `module.name` from now on."""
    calls: list[Any] = []
    original: Callable[..., Any] = getattr(module, name)

    def call(*arguments: Any) -> Any:
        calls.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(module, name, call)
    return calls


def test_every_row_is_what_run_gives_for_its_cell(config: Any) -> None:
    frame = sim.sweep(config, GRID, seeds=2, workers=1)
    assert len(frame) == 12
    for _, row in frame.iterrows():
        overrides = {**{key: row[key] for key in GRID}, "seed": row["seed"]}
        alone = metrics_of(sim.run(sim.load_config("config.yaml", overrides)).summary)
        assert {name: row[name] for name in alone if not pd.isna(row[name])} == {
            name: value for name, value in alone.items() if value is not None
        }


@pytest.mark.parametrize("over_cap", ["clip", "drop"])
def test_rates_of_a_capped_trace_are_what_run_gives(tiny: Path, over_cap: str) -> None:
    # dropping moves the origin after the rate is applied, clipping does not
    caps = {"trace.max_prompt_tokens": 199, "trace.over_cap": over_cap}
    frame = sim.sweep(sim.load_config("config.yaml", caps), {"trace.rate_scale": [0.3, 7.0]}, workers=1)
    for rate, p99 in frame[["trace.rate_scale", "ttft_s.p99"]].values.tolist():
        alone = sim.run(sim.load_config("config.yaml", {**caps, "trace.rate_scale": rate}))
        assert alone.summary["ttft_s"]["p99"] == p99


def test_columns_are_axes_seed_metrics_error_without_the_simulators_own_figures(config: Any) -> None:
    frame = sim.sweep(config, GRID, workers=1)
    assert list(frame.columns[:3]) == ["policy.token_budget", "trace.rate_scale", "seed"]
    assert frame.columns[-1] == "error"
    assert not [name for name in frame if name.startswith(("simulator", "provenance"))]
    assert frame["ttft_s.p99"].dtype == float
    assert frame["num_finished"].dtype == int


def test_the_table_is_the_same_bytes_with_any_number_of_workers(config: Any) -> None:
    for workers in (1, 2, 3):
        sim.sweep(config, GRID, seeds=2, workers=workers, out=f"by-{workers}")
    tables = {Path(f"by-{workers}", "sweep.csv").read_bytes() for workers in (1, 2, 3)}
    assert len(tables) == 1


def test_an_axis_that_is_called_like_a_metric_keeps_its_values(config: Any) -> None:
    frame = sim.sweep(config, {"kv_cache.num_blocks": ["unlimited", 500]}, workers=1)
    assert frame["kv_cache.num_blocks"].tolist() == ["unlimited", "500"]
    assert list(frame).count("kv_cache.num_blocks") == 1


def test_a_failed_cell_is_a_row_with_its_error_and_the_others_go_on(odd: Any) -> None:
    grid = {"policy.deed": ["none", "raise"], "trace.limit": [2, 3]}
    frame = sim.sweep(odd, grid, workers=1)
    assert frame["error"].isna().tolist() == [True, True, False, False]
    assert frame["error"].str.contains("PolicyError: policy 'odd'.*RuntimeError: as it was told").sum() == 2
    assert frame["num_finished"].tolist()[:2] == [2, 3]
    assert frame["num_finished"].isna().tolist() == [False, False, True, True]
    assert frame["num_finished"].dtype == "Int64"


def test_a_cell_that_kills_its_worker_is_a_row_and_the_others_go_on(odd: Any) -> None:
    grid = {"policy.deed": ["none", "die"], "trace.limit": [2, 3]}
    frame = sim.sweep(odd, grid, workers=2)
    assert frame["error"].isna().tolist() == [True, True, False, False]
    assert frame["error"].str.startswith("WorkerDied: ").sum() == 2
    assert frame["num_finished"].tolist()[:2] == [2, 3]


def test_a_single_cell_that_kills_its_worker_does_not_kill_the_sweep(odd: Any) -> None:
    frame = sim.sweep(odd, {"policy.deed": ["die"]}, workers=2)
    assert frame["error"].tolist() == [DIED]


def test_no_finished_cell_is_run_again_for_one_that_killed_its_worker(odd: Any, tmp_path: Path) -> None:
    # the first cell dies late, when cells behind it are finished
    policies = [{"path": str(ODD), "name": "odd", "deed": "die", "dawdle_s": 1.0}]
    policies += [{"path": str(ODD), "name": "odd", "max_batch_size": size} for size in range(1, 20)]
    sim.sweep(odd, {"policy": policies}, workers=2, out=tmp_path / "out")
    assert (tmp_path / "out" / "sweep.journal").read_bytes().count(b"\n") == 1 + len(policies)


def test_the_trace_and_the_cost_model_are_loaded_once_a_worker(
    config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_traces", Kept(worker.KEPT_REQUESTS, len))
    monkeypatch.setattr(worker, "_costs", Kept(worker.KEPT_MODELS))
    traces = counted(monkeypatch, worker, "build_trace")
    costs = counted(monkeypatch, worker, "build_cost")
    sim.sweep(config, GRID, seeds=3, workers=1)
    assert (len(traces), len(costs)) == (1, 1)


def test_a_trace_that_was_changed_is_loaded_again(config: Any) -> None:
    first = sim.sweep(config, workers=1)
    with Path("trace.csv").open("a") as file:
        file.write("0.5,10,10\n")
    assert sim.sweep(config, workers=1)["num_requests"].tolist() == [first["num_requests"][0] + 1]


def test_seeds_draw_synthetic_traces_anew(tiny: Path) -> None:
    values = yaml.safe_load(Path("config.yaml").read_text())
    lengths = {"distribution": "uniform", "min": 10, "max": 90}
    values["trace"] = {
        "synthetic": {
            "num_requests": 20,
            "arrivals": {"process": "poisson", "rate_per_s": 50},
            "prompt_tokens": lengths,
            "output_tokens": lengths,
        }
    }
    frame = sim.sweep(sim.load_config(values), {"trace.rate_scale": [1, 2]}, seeds=3, workers=1)
    assert frame["num_output_tokens"].nunique() == 3
    assert frame.groupby("seed")["num_output_tokens"].nunique().tolist() == [1, 1, 1]


def test_what_is_kept_is_bounded_and_the_last_one_asked_for_stays() -> None:
    kept: Kept[list[int]] = Kept(10, len)
    made = []

    def make(size: int) -> list[int]:
        made.append(size)
        return [0] * size

    for size in (6, 4, 6, 4, 30, 4, 6, 4):
        assert len(kept.get(str(size), lambda size=size: make(size))) == size
    assert made == [6, 4, 30, 4, 6]


def test_a_path_means_the_same_to_workers_that_were_started_elsewhere(
    config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sim.sweep(config, GRID, workers=2)  # its workers stay, in this folder
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("config.yaml", "trace.csv"):
        (elsewhere / name).write_text(Path(name).read_text())
    (elsewhere / "trace.csv").open("a").write("0.5,10,10\n")
    monkeypatch.chdir(elsewhere)
    frame = sim.sweep(sim.load_config("config.yaml"), {"trace.rate_scale": [1, 2]}, workers=2)
    assert frame["num_requests"].tolist() == [4, 4]


def test_progress_counts_cells(config: Any) -> None:
    seen: list[tuple[int, int]] = []
    sim.sweep(config, GRID, workers=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 6) for done in range(7)]


SCRIPT = """
import sim

@sim.policy("mine", steady=True)
class Mine:
    max_batch_size: int = sim.param(8, "requests", minimum=1)

    def plan(self, step):
        step.decode_all()
        for request in step.waiting:
            if not step.schedule(request):
                break

if __name__ == "__main__":
    config = sim.load_config("config.yaml", {"policy.name": "mine"})
    frame = sim.sweep(config, {"policy.max_batch_size": [1, 2, 4]}, workers=2)
    print(frame["error"].isna().all(), frame["num_finished"].tolist())
"""


def test_a_policy_defined_in_a_script_or_notebook_reaches_the_workers(tiny: Path, root: Path) -> None:
    Path("script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True [3, 3, 3]\n", done.stderr


def test_a_parquet_table_reads_back_as_the_frame(tiny: Path) -> None:
    pytest.importorskip("pyarrow")
    config = sim.load_config("config.yaml", {"output.format": "parquet"})
    frame = sim.sweep(config, {"kv_cache.num_blocks": ["unlimited", 500]}, workers=1, out="p")
    pd.testing.assert_frame_equal(pd.read_parquet("p/sweep.parquet"), frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "lokey"}, "backend: unknown value 'lokey': did you mean 'loky'"),
        ({"workers": 0}, "workers: must be an integer of at least 1, got 0"),
        ({"address": "localhost:1"}, "address: 'localhost:1' is for --backend dask or ray"),
        ({"backend": "dask", "address": "localhost:1", "workers": 2}, "leave one of the two out"),
    ],
)
def test_wrong_options_are_named(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sim.UserError) as caught:
        sim.sweep(config, GRID, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_backend_that_is_not_installed_names_its_extra(
    config: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {"dask": "distributed", "ray": "ray"}[backend]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(sim.UserError, match=rf"pip install 'llm-scheduler-sim\[{backend}\]'"):
        sim.sweep(config, GRID, backend=backend)
