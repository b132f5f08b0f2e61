"""A `vllm bench serve --save-detailed` result becomes a run folder.

The small result here is written by hand after vLLM's benchmarks/serve.py (start_times: pull request
32667): three requests, the second of which failed; the third was sent before the first.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim.core.errors import TraceError
from sim.measure.vllm_bench import ENGINE_KEYS, REQUEST_COLUMNS, convert_bench

RESULT = {
    "model_id": "meta-llama/Llama-3.1-8B",
    "request_rate": 2.0,
    "max_concurrency": None,
    "duration": 3.0,
    "completed": 2,
    "input_lens": [100, 50, 20],
    "output_lens": [3, 0, 1],
    "ttfts": [0.5, 0.0, 0.25],
    "itls": [[0.125, 0.25], [], []],
    "start_times": [1000.5, 1000.25, 1000.0],
    "errors": ["", "timeout", ""],
    "generated_texts": ["a b c", "", "d"],
}


@pytest.fixture
def write(tmp_path):
    def write_result(**changes):
        path = tmp_path / "result.json"
        result = {key: value for key, value in {**RESULT, **changes}.items() if value is not ...}
        path.write_text(json.dumps(result))
        return path

    return write_result


def test_times_are_seconds_from_the_first_arrival_in_order(write, tmp_path):
    converted = convert_bench(write(), tmp_path / "run")
    assert (converted.requests, converted.dropped) == (2, 1)
    with (tmp_path / "run" / "requests.csv").open() as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert tuple(reader.fieldnames) == REQUEST_COLUMNS
    assert [tuple(row.values()) for row in rows] == [
        ("bench-2", "0.000000", "20", "1", "", "", "0.250000", "0.250000"),
        ("bench-0", "0.500000", "100", "3", "", "", "1.000000", "1.375000"),
    ]
    lines = [json.loads(line) for line in (tmp_path / "run" / "trace.jsonl").read_text().splitlines()]
    assert lines == [
        {"timestamp": 0.0, "input_length": 20, "output_length": 1},
        {"timestamp": 500.0, "input_length": 100, "output_length": 3},
    ]


def test_the_engine_is_what_the_user_says_and_null_where_nobody_knows(write, tmp_path):
    converted = convert_bench(write(), tmp_path / "run", {"max_num_seqs": 128, "gpu": "H100"})
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert set(ENGINE_KEYS) <= set(run)
    assert (run["model"], run["engine"]) == ("meta-llama/Llama-3.1-8B", "vllm")
    assert (run["max_num_seqs"], run["gpu"], run["num_gpu_blocks"]) == (128, "H100", None)
    assert run["load"] == {"request_rate": 2.0, "max_concurrency": None}
    assert "1 requests failed in the benchmark and are left out" in converted.notices
    assert any("fill in max_num_batched_tokens, num_gpu_blocks" in text for text in converted.notices)


def test_an_older_result_serves_only_where_all_were_sent_at_once(write, tmp_path):
    converted = convert_bench(write(start_times=..., request_rate="inf"), tmp_path / "run")
    assert "no start_times: every request is taken to arrive at 0" in converted.notices
    with pytest.raises(TraceError, match="has no start_times"):
        convert_bench(write(start_times=...), tmp_path / "run")
    with pytest.raises(TraceError, match="has no start_times"):
        convert_bench(write(start_times=..., request_rate="inf", max_concurrency=8), tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"itls": ..., "ttfts": ...}, "has no ttfts, itls; write it by vllm bench serve --save-result"),
        ({"ttfts": [0.5, 0.1]}, "its lists differ in length"),
        ({"ttfts": [-0.5, 0.0, 0.1]}, "request 0: ttfts and itls must be finite and >= 0"),
        ({"errors": ["x", "x", "x"]}, "none of its 3 requests completed"),
    ],
)
def test_a_wrong_result_is_refused_and_nothing_written(write, tmp_path, changes, message):
    with pytest.raises(TraceError, match=message):
        convert_bench(write(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_setting_is_answered_with_the_nearest(write, tmp_path):
    with pytest.raises(TraceError, match="did you mean 'max_num_seqs'"):
        convert_bench(write(), tmp_path / "run", {"max_num_seq": 128})


def test_a_missing_file_and_appended_results(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        convert_bench(tmp_path / "nothing.json", tmp_path / "run")
    (tmp_path / "two.json").write_text("{}\n{}\n")
    with pytest.raises(TraceError, match="--append-result"):
        convert_bench(tmp_path / "two.json", tmp_path / "run")


def test_the_script(write, tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "vllm_bench_to_run.py"

    def run(*arguments):
        command = [sys.executable, str(script), str(write()), str(tmp_path / "run"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    good = run("gpu=H100", "max_num_seqs=128", "enable_prefix_caching=false")
    assert good.returncode == 0, good.stderr
    assert "2 requests" in good.stdout
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (settings["max_num_seqs"], settings["enable_prefix_caching"]) == (128, False)
    assert (run("gpu").returncode, run("gpus=H100").returncode) == (2, 2)
