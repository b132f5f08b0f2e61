"""`explain RUN_DIR` and Result.explain: from a run folder, which is simulated once more."""

import shutil
import warnings
from pathlib import Path

import pytest

import sim
from sim.cli import main


@pytest.fixture
def run_dir(tiny: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The run folder of three requests; the current folder is where it was made."""
    assert main(["run", "config.yaml"]) == 0
    capsys.readouterr()
    return tiny / "out"


def test_without_options_the_tails_are_taken_apart(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "out"]) == 0
    printed = capsys.readouterr()
    assert "TTFT from p99 on: 1, mean" in printed.out and "TBT from p99 on: 1, mean" in printed.out
    assert "its own prefill" in printed.out
    assert printed.err == ""


def test_a_run_without_gaps_explains_its_ttfts(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,200,1\n0.01,50,1\n")
    assert main(["run", "config.yaml"]) == 0
    assert main(["explain", "out"]) == 0
    printed = capsys.readouterr().out
    assert "TTFT from p99 on" in printed and "TBT from p99 on" not in printed


def test_one_request_and_the_worst(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "out", "--request", "2"]) == 0
    assert "TTFT" in capsys.readouterr().out
    assert main(["explain", "out", "--worst", "tbt", "--top", "2"]) == 0
    assert capsys.readouterr().out.count("gap before token") == 2
    assert main(["explain", "out", "--percentile", "ttft", "50"]) == 0
    assert "TTFT from p50 on: 2, mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--request", "9"], "no request '9' in this run: ids are 0, 1, 2"),
        (["--worst", "itl"], "unknown latency 'itl': did you mean 'tbt'? allowed: ttft, tbt"),
        (["--percentile", "ttft", "x"], "--percentile ttft x: must be a number between 0 and 100"),
        (["--percentile", "e2e", "50"], "--percentile e2e: "),
        (["--top", "0"], "--top: must be at least 1, got 0"),
    ],
)
def test_wrong_arguments(
    run_dir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["explain", "out", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_changed_trace_is_said(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Path("trace.csv")
    trace.write_text(trace.read_text().replace("0.01,50,20", "0.01,50,21"))
    assert main(["explain", "out"]) == 0
    notes = capsys.readouterr().err
    assert "the trace is not the one that the run was made from" in notes
    assert "the saved results differ from this simulation in" in notes


def test_a_trace_that_is_gone_is_named(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.csv").unlink()
    assert main(["explain", "out"]) == 2
    assert "trace.csv" in capsys.readouterr().err


def test_a_comparison_names_its_runs(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "config.yaml", "--policies", "static,continuous"]) == 0
    assert main(["explain", "out-compare"]) == 2
    assert "name one of them: out-compare/static, out-compare/continuous" in capsys.readouterr().err
    assert main(["explain", "out-compare/static"]) == 0


def test_results_in_memory_and_from_a_folder_explain_the_same(run_dir: Path) -> None:
    fresh = sim.run(sim.load_config("config.yaml"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = fresh.explain(worst="ttft", top=3)
        assert table.equals(sim.load_run(run_dir).explain(worst="ttft", top=3))
    assert table.groupby("request_id")["seconds"].sum().tolist() == pytest.approx(
        fresh.requests.set_index("request_id")["ttft_s"].tolist()
    )
    assert set(fresh.explain("1")["what"]) == {"ttft", "tbt"}
    assert len(set(fresh.explain(percentile=("tbt", 50))["request_id"])) == 1


def test_a_folder_that_was_moved_still_explains(run_dir: Path, tmp_path: Path) -> None:
    moved = shutil.move(run_dir, tmp_path / "elsewhere")
    assert len(sim.load_run(moved).explain())
