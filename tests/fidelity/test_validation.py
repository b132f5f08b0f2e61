"""validate on runs small enough to know the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sim.api.load import load_config
from sim.api.measured import read_measured
from sim.api.simulation import run
from sim.api.validation import replay_config, validate
from sim.cli import main
from sim.core.errors import UserError
from sim.cost.names import gpu_called, model_called
from sim.report import fidelity
from tests.fidelity.runs import COST, REQUESTS, edit, write_cost, write_run

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


@pytest.fixture
def simulated_run(tmp_path: Path) -> Path:
    """A run folder whose measurement is a simulation under the same settings."""
    folder, cost = write_run(tmp_path / "measured"), write_cost(tmp_path)
    replay = validate(folder, cost, {"output.plots": False})
    served = run(load_config(replay.report["provenance"]["config"] | {"cost_model": COST})).requests
    return write_run(
        folder,
        first_token_s=served["first_token_s"].to_numpy(),
        last_token_s=served["finish_s"].to_numpy(),
        queued_s=served["arrival_s"].to_numpy(),
    )


def test_a_run_that_the_simulator_made_is_predicted_without_error(simulated_run: Path) -> None:
    report = validate(simulated_run, simulated_run.parent / "cost.yaml").report
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        assert set(report["metrics"][metric]) == set(STATISTICS)
        for figures in report["metrics"][metric].values():
            assert figures["simulated"] == pytest.approx(figures["measured"], rel=1e-6)
            assert figures["error_pct"] == pytest.approx(0, abs=1e-4)
    assert report["makespan_s"]["error_pct"] == pytest.approx(0, abs=1e-4)
    assert report["output_tokens_per_s"]["measured"] == pytest.approx(
        28 / report["makespan_s"]["measured"], rel=1e-9
    )
    assert report["num_preemptions"] == 0
    assert report["per_request"]["tpot_s"]["median_abs_error_pct"] == pytest.approx(0, abs=1e-4)


def test_the_settings_of_the_replay_are_those_of_run_json(tmp_path: Path) -> None:
    config = replay_config(read_measured(write_run(tmp_path)), "cost.yaml")
    assert config.policy.name == "vllm_v1"
    assert (config.policy.parameters["token_budget"], config.policy.parameters["max_batch_size"]) == (128, 2)
    assert config.replica.model == "llama-3.1-8b"
    assert config.kv_cache.num_blocks == 1000, "vLLM never gives out block 0"
    assert config.kv_cache.block_size == 16
    assert not config.kv_cache.prefix_caching


@pytest.mark.parametrize(
    ("settings", "planned_ahead"),
    [
        ({"engine_version": "0.13.2"}, False),
        ({"engine_version": "0.14.0"}, True),
        ({"engine_version": "0.19.0"}, True),
        ({"engine_version": "0.19.0", "async_scheduling": False}, False),
        ({"engine_version": "0.10.2", "async_scheduling": True}, True),
        ({"engine_version": None}, False),
    ],
)
def test_async_scheduling_is_as_said_else_the_versions_default(
    tmp_path: Path, settings: dict[str, object], planned_ahead: bool
) -> None:
    assert read_measured(write_run(tmp_path, settings)).async_scheduling is planned_ahead


def test_prefixes_are_shared_where_the_trace_says_so(tmp_path: Path) -> None:
    folder, cost = write_run(tmp_path / "run", {"enable_prefix_caching": True}), write_cost(tmp_path)
    lines = [
        {"timestamp": 0, "input_length": prompt, "hash_ids": list(range(-(-prompt // 16)))}
        for _, prompt, _ in REQUESTS
    ]
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shared = validate(folder, cost).report["prefix_cache"]
    assert shared["hit_tokens"] > 0 and shared["hit_rate"] == shared["hit_tokens"] / shared["query_tokens"]
    apart = validate(folder, cost, {"kv_cache.prefix_caching": False}).report["prefix_cache"]
    assert apart == {"query_tokens": 0, "hit_tokens": 0, "hit_rate": None}


def test_without_queued_times_ttft_from_arrival_enters_the_single_figure(tmp_path: Path) -> None:
    report = validate(write_run(tmp_path / "run"), write_cost(tmp_path)).report
    assert report["metrics"]["ttft_queued_s"]["mean"]["measured"] is None
    errors = [
        abs(report["metrics"][metric][statistic]["error_pct"])
        for metric in ("ttft_s", "tpot_s", "e2e_s")
        for statistic in STATISTICS
    ]
    assert report["mean_abs_error_pct"] == pytest.approx(np.mean(errors))


def test_running_and_waiting_are_compared_where_they_were_sampled(tmp_path: Path) -> None:
    folder, cost = write_run(tmp_path / "run"), write_cost(tmp_path)
    samples = pd.DataFrame({"t": [0.005, 10.0], "running": [1, 0], "waiting": [0, 3]})
    samples.to_csv(folder / "timeseries.csv", index=False)
    result = validate(folder, cost)
    assert result.timeline is not None
    assert result.timeline["simulated_running"].tolist() == [1, 0]
    assert result.report["timeline"]["mean_abs_difference_waiting"] == 1.5
    written = {path.name for path in result.save(tmp_path / "out")}
    assert written == {"validation.json", "distributions.png", "load.png"}


def test_the_command_prints_the_table_and_writes_the_json(
    simulated_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cost, out = str(tmp_path / "cost.yaml"), tmp_path / "out"
    assert main(["validate", str(simulated_run), "--cost", cost, "--out", str(out), "--no-plots"]) == 0
    printed = capsys.readouterr().out
    assert "TTFT, from queued" in printed and "mean absolute error over" in printed
    assert [path.name for path in out.iterdir()] == ["validation.json"]
    report = json.loads((out / "validation.json").read_text())
    assert set(report["metrics"]) == {"ttft_queued_s", "ttft_s", "tpot_s", "e2e_s"}
    assert report["provenance"]["measured"]["max_num_seqs"] == 2


def test_vllms_own_benchmark_becomes_a_run_that_validates(tmp_path: Path, root: Path) -> None:
    bench = {
        "model_id": "meta-llama/Llama-3.1-8B",
        "input_lens": [100, 20],
        "output_lens": [3, 1],
        "ttfts": [0.02, 0.01],
        "itls": [[0.006, 0.007], []],
        "start_times": [1000.0, 1000.5],
        "errors": ["", ""],
    }
    (tmp_path / "result.json").write_text(json.dumps(bench))
    script = root / "scripts" / "vllm_bench_to_run.py"
    engine = ["max_num_seqs=8", "max_num_batched_tokens=2048", "num_gpu_blocks=500"]
    subprocess.run(
        [sys.executable, str(script), str(tmp_path / "result.json"), str(tmp_path / "run"), *engine],
        check=True,
        capture_output=True,
    )
    report = validate(tmp_path / "run", write_cost(tmp_path)).report
    assert report["num_requests"] == 2 and report["num_blocks"] == 499
    # By hand: 6 ms + 100 x 20 us + 5,050 pairs x 1 ns, and 6 ms + 20 x 20 us + 210 pairs x 1 ns.
    assert report["metrics"]["ttft_s"]["mean"]["simulated"] == pytest.approx((8.00505e-3 + 6.40021e-3) / 2)
    assert report["metrics"]["tpot_s"]["mean"]["measured"] == pytest.approx(0.0065)


def test_requests_are_taken_in_between_two_iterations() -> None:
    starts, ends = np.array([1.0, 2.0, 5.0]), np.array([2.0, 3.0, 6.0])
    times = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.5, 7.0])
    taken = fidelity.boundary_at_or_after(times, starts, ends)
    assert taken.tolist() == [0.5, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 6.0, 7.0]


def test_in_system_counts_those_that_entered_and_did_not_leave() -> None:
    entered, left = np.array([0.0, 1.0, 2.0]), np.array([1.5, 3.0, 2.5])
    assert fidelity.in_system(np.array([0.0, 1.0, 1.5, 2.2, 3.0]), entered, left).tolist() == [1, 2, 1, 2, 0]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("RTXPRO6000", "rtxpro6000-96gb"),
        ("h100", "h100-80gb"),
        ("h200_sxm", "h200-141gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000-96gb"),
    ],
)
def test_gpus_are_known_by_the_names_that_people_give_them(name: str, known: str) -> None:
    assert gpu_called(name) == known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama-3.3-70b-fp8"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("meta-llama/Llama-3.1-8B-AWQ", None),
    ],
)
def test_models_are_known_whatever_they_were_trained_for(name: str, known: str | None) -> None:
    assert model_called(name) == known


def test_an_unknown_gpu_is_said_with_what_is_known() -> None:
    with pytest.raises(UserError, match="gpu 'TPUv5' is not in the catalogue: "):
        gpu_called("TPUv5")


def broken(tmp_path: Path, file: str, old: str, new: str) -> str:
    folder = write_run(tmp_path / "run")
    edit(folder / file, old, new)
    with pytest.raises(UserError) as caught:
        validate(folder, write_cost(tmp_path))
    return str(caught.value).replace(str(folder) + "/", "")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "run.json",
            '"max_num_seqs": 2, ',
            "",
            "run.json: max_num_seqs is missing; needed: model, max_num_seqs, max_num_batched_tokens",
        ),
        (
            "run.json",
            '"engine": "vllm"',
            '"engine": "vlm"',
            "run.json: engine 'vlm': did you mean 'vllm'? allowed: vllm",
        ),
        (
            "run.json",
            '"engine": "vllm"',
            '"data_parallel_size": 2',
            "run.json: data_parallel_size 2: only 1 can be replayed",
        ),
        ("requests.csv", "r1,", "r0,", "requests.csv:3: request_id r0 is there twice"),
        ("requests.csv", ",200,", ",many,", "requests.csv:2: prompt_tokens many must be a number"),
        ("requests.csv", ",200,", ",0,", "requests.csv:2: prompt_tokens 0 must be an integer >= 1"),
        (
            "requests.csv",
            "r1,0.01,",
            "r1,0.5,",
            "requests.csv:4: arrival_s 0.02 must not go back in time, nor be below 0",
        ),
        (
            "requests.csv",
            "5,1.0,2.0",
            "5,1.0,0.5",
            "requests.csv:2: last_token_s 0.5 is before first_token_s",
        ),
        ("requests.csv", "5,1.0,2.0", "5,-1.0,2.0", "requests.csv:2: first_token_s -1.0 is before arrival_s"),
    ],
)
def test_a_bad_file_is_named_with_row_and_value(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    assert broken(tmp_path, file, old, new) == message


def test_a_misspelt_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    message = broken(tmp_path, "requests.csv", "first_token_s", "first_tokens_s")
    assert message.startswith("requests.csv: no column 'first_token_s': did you mean 'first_tokens_s'?")


def test_queued_times_lie_between_arrival_and_first_token(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", queued_s=[0.0, 0.005, 0.02, 0.03])
    with pytest.raises(
        UserError, match=r"requests.csv:3: queued_s 0.005 is not between arrival_s and first_t"
    ):
        validate(folder, write_cost(tmp_path))


def test_a_trace_that_is_not_of_these_requests_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "trace.jsonl").write_text('{"timestamp": 0, "input_length": 7}\n')
    with pytest.raises(UserError, match=r"trace.jsonl:1: input_length 7 is not that row's in requests.csv"):
        validate(folder, write_cost(tmp_path))


def test_requests_that_cannot_have_been_served_are_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"max_model_len": 100})
    with pytest.raises(UserError, match="the simulation rejected requests that were served: "):
        validate(folder, write_cost(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "validate: give either RUN_DIR or --closed-loop CSV"),
        (["run"], "validate: --cost is required: a cost model file, or a profile folder"),
        (["nowhere", "--cost", "x"], "no such run folder: nowhere (docs/run-format.md says what it holds)"),
        (["--closed-loop", "x.csv", "--seeds", "0"], "--seeds: must be at least 1, got 0"),
        (["--closed-loop", "x.csv"], "cannot read x.csv: No such file or directory"),
    ],
)
def test_bad_arguments_end_with_2_and_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["validate", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.strip().endswith(message) and "Traceback" not in printed.err
