"""Closed-loop load: so many in flight, each completion releasing the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.api.closed_loop import validate_closed_loop
from sim.cli import main
from sim.core.errors import UserError
from tests.fidelity.runs import write_cost

POINT: dict[str, Any] = {
    "id": "p1",
    "model_actual": "nvidia/Llama-3.3-70B-Instruct-FP8",
    "system": "h100_sxm",
    "tp_size": 4,
    "in_len_min": 32,
    "in_len_max": 32,
    "out_len_min": 5,
    "out_len_max": 5,
    "concurrency": 1,
    "num_prompts": 3,
    "max_num_batched_tokens": 128,
    "max_num_seqs": 1,
    "silicon_ttft_ms": 5.0,
    "silicon_tpot_ms": 5.0,
}


def write_points(folder: Path, *changes: dict[str, Any]) -> Path:
    path = folder / "points.csv"
    pd.DataFrame([POINT | change for change in changes or ({},)]).to_csv(path, index=False)
    return path


def test_one_in_flight_by_hand(tmp_path: Path) -> None:
    """Prefill 6 ms + 32 x 20 us + 528 pairs x 1 ns; decodes 5 ms + 10 us + 0.1 us x context, 33 to 36."""
    row = validate_closed_loop(write_points(tmp_path), write_cost(tmp_path)).rows.iloc[0]
    assert row["simulated_ttft_ms"] == pytest.approx(6.640528)
    assert row["simulated_tpot_ms"] == pytest.approx(5.010 + 0.1e-3 * (33 + 34 + 35 + 36) / 4)
    assert row["ttft_error_pct"] == pytest.approx(100 * (6.640528 / 5 - 1))


def test_errors_are_gathered_by_gpu_parallelism_lengths_and_concurrency(tmp_path: Path) -> None:
    path = write_points(
        tmp_path, {}, {"system": "h200_sxm", "concurrency": 2, "max_num_seqs": 2}, {"tp_size": 8}
    )
    points = pd.read_csv(path)
    points["flags"] = ["", "kv_limited: waited", ""]
    points.to_csv(path, index=False)
    report = validate_closed_loop(path, write_cost(tmp_path)).report
    assert set(report["by"]) == {"gpu", "tensor_parallel", "length_mix", "concurrency"}
    assert list(report["by"]["tensor_parallel"]) == ["4", "8"]
    assert report["not_kv_limited"]["tpot"]["points"] == 2 and report["all"]["tpot"]["points"] == 3
    rows = pd.DataFrame(report["rows"])
    free = rows[~rows["kv_limited"]]
    assert report["not_kv_limited"]["ttft"]["mape_pct"] == pytest.approx(free["ttft_error_pct"].abs().mean())
    assert report["not_kv_limited"]["tpot"]["bias_pct"] == pytest.approx(free["tpot_error_pct"].mean())


def test_each_point_takes_the_shipped_cost_model_of_its_hardware(tmp_path: Path) -> None:
    path = write_points(tmp_path)
    shipped = validate_closed_loop(path).rows
    named = validate_closed_loop(path, "h100-80gb-llama-3.3-70b-fp8-tp4").rows
    pd.testing.assert_frame_equal(shipped, named)


def test_the_command_writes_json_table_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["validate", "--closed-loop", str(write_points(tmp_path)), "--out", str(out)]) == 0
    assert "not limited by KV" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"validation.json", "closed_loop.csv", "closed_loop.png"}
    assert json.loads((out / "validation.json").read_text())["points"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concurrency": None}, "points.csv:2: concurrency nan must be a number"),
        ({"tp_size": "two"}, "points.csv:2: tp_size two must be a number"),
        ({"num_prompts": 0}, "points.csv:2: num_prompts 0 must be above 0"),
        ({"out_len_min": 1, "out_len_max": 1}, "p1: out_len_max 1: one token has no TPOT"),
        ({"max_model_len": 20}, "p1: 3 requests fit neither the KV nor the model"),
    ],
)
def test_a_bad_point_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        validate_closed_loop(write_points(tmp_path, change), write_cost(tmp_path))
    assert str(caught.value).endswith(message)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = write_points(tmp_path)
    pd.read_csv(path).rename(columns={"tp_size": "tp"}).to_csv(path, index=False)
    with pytest.raises(UserError, match=r"points.csv: no column 'tp_size'"):
        validate_closed_loop(path)


# trace: {closed_loop: ...} in any config


def closed_loop_run(concurrency: int, **overrides: Any) -> sim.Result:
    changes = {"trace.closed_loop": {"concurrency": concurrency}, **overrides}
    return sim.run(sim.load_config("config.yaml", changes))


@pytest.mark.parametrize("policy", ["static", "continuous", "prefill_first", "stall_free", "vllm_v1"])
@pytest.mark.parametrize("concurrency", [1, 2, 3, 9])
def test_at_most_so_many_are_in_flight_and_each_completion_releases_one(
    tiny: Path, policy: str, concurrency: int
) -> None:
    result = closed_loop_run(concurrency, **{"policy": {"name": policy, "max_batch_size": 4}})
    assert result.summary["num_finished"] == 3
    assert result.summary["peak_concurrency"] == min(concurrency, 3)
    requests = result.requests
    burst, later = requests.iloc[:concurrency], requests.iloc[concurrency:]
    assert (burst["arrival_s"] == 0).all()
    assert later["arrival_s"].tolist() == pytest.approx(np.sort(requests["finish_s"])[: len(later)])


def test_the_steady_window_of_a_closed_loop_is_stated_or_null(tiny: Path) -> None:
    """Arrivals come of completions, so that their middle is not known before the run."""
    unknown = closed_loop_run(1).summary["steady_throughput"]
    assert {unknown[key] for key in ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")} == {None}
    end = closed_loop_run(1).summary["makespan_s"]
    stated = closed_loop_run(1, **{"output.steady_window_s": [0, 2 * end]}).summary["steady_throughput"]
    assert stated["output_tokens_per_s"] == pytest.approx(26 / (2 * end))


def test_a_closed_loop_ignores_the_arrivals_of_its_trace(tiny: Path) -> None:
    first = closed_loop_run(2).summary
    (tiny / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,200,5\n7,50,20\n9,300,1\n")
    second = closed_loop_run(2).summary
    assert first["ttft_s"] == second["ttft_s"] and first["tpot_s"] == second["tpot_s"]


def test_run_prints_a_closed_loop(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "config.yaml", "--set", "trace.closed_loop.concurrency=2"]) == 0
    assert "TTFT" in capsys.readouterr().out
