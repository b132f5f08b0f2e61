"""`python -m sim trace ...`: the five actions as a user runs them, and wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim.cli import main
from sim.trace import load_trace

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "traces/azure_conv_sample.csv")
SPEC = str(ROOT / "traces/azure_conv.yaml")


def test_info_prints_tables_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", SAMPLE, "--plot", str(tmp_path / "plots/t.png")]) == 0
    shown = capsys.readouterr()
    assert "1,600 requests" in shown.out and "index of dispersion" in shown.out
    assert (tmp_path / "plots/t.png").stat().st_size > 10_000


def test_info_of_a_config_tells_the_offered_load(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", str(ROOT / "configs/quickstart.yaml"), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert 0 < about["offered_load"]["batched"] < about["offered_load"]["alone"]


def test_info_draws_prefix_reuse_where_there_are_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, spec = tmp_path / "t.csv", tmp_path / "spec.yaml"
    spec.write_text("num_requests: 100\nsessions: {turns: 4}\nshared_prefix: {tokens: 64}\n")
    assert main(["trace", "generate", str(spec), "--out", str(trace)]) == 0
    assert main(["trace", "info", str(trace), "--plot", str(tmp_path / "t.png")]) == 0
    shown = capsys.readouterr().out
    assert "prefix reuse" in shown and "sessions" in shown


def test_convert_cuts_scales_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "t.jsonl.gz")
    arguments = ["--window", "10:60", "--rate-scale", "2", "--max-total-tokens", "2000", "--over-cap", "clip"]
    assert main(["trace", "convert", SAMPLE, out, *arguments]) == 0
    assert "clipped to max_total_tokens 2000" in capsys.readouterr().err
    trace = load_trace(out, format="mooncake")
    assert trace.arrival_ns[-1] < 25e9
    assert (trace.prompt_tokens + trace.output_tokens).max() <= 2000


def test_generate_obeys_seed_and_overrides(tmp_path: Path) -> None:
    outs = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for out, seed in zip(outs, ("1", "1", "2"), strict=True):
        arguments = ["--set", "num_requests=50", "--seed", seed, "--out", str(out)]
        assert main(["trace", "generate", SPEC, *arguments]) == 0
    first, again, other = (out.read_bytes() for out in outs)
    assert first == again != other and first.count(b"\n") == 51


def test_generate_takes_the_synthetic_part_of_a_config(tmp_path: Path) -> None:
    config, out = tmp_path / "c.yaml", tmp_path / "t.csv"
    config.write_text("name: x\ntrace: {synthetic: {num_requests: 9}}\n")
    assert main(["trace", "generate", str(config), "--set", "num_requests=7", "--out", str(out)]) == 0
    assert len(load_trace(out)) == 7


def test_fit_writes_a_model_and_shows_how_good_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "fit", SAMPLE, "--out", str(tmp_path / "m.yaml")]) == 0
    assert "Goodness of fit" in capsys.readouterr().out
    assert (tmp_path / "m_quantiles.csv").exists()


def test_fetch_without_a_name_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "fetch"]) == 0
    assert "mooncake-conversation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nowhere.csv"], "no trace file nowhere.csv"),
        (["info", SAMPLE, "--window", "5"], "--window 5: must look like FROM:TO"),
        (["info", SAMPLE, "--limit", "0"], "limit: 0 is too small"),
        (["convert", SAMPLE, "/nowhere/at/all.csv"], "cannot write /nowhere/at/all.csv"),
        (["convert", SAMPLE, "t.csv", "--to", "vidr"], "invalid choice: 'vidr'"),
        (["generate", "nowhere.yaml", "--out", "t.csv"], "nowhere.yaml: no such config file"),
        (["generate", SPEC, "--set", "arrivals.rate=1", "--out", "t.csv"], "arrivals.rate: unknown key"),
        (["fetch", "azure"], "unknown public trace 'azure'"),
    ],
)
def test_wrong_input_is_exit_code_2_and_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_importing_the_package_brings_neither_pandas_nor_matplotlib() -> None:
    code = (
        "import sys, sim.trace, sim.trace.options, sim.trace.synthetic, sim.trace.load, sim.cli.trace;"
        "print([name for name in ('pandas', 'matplotlib', 'pooch', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_info_fits_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from sim.cli.trace_tables import trace_tables
    from sim.trace import load_trace
    from sim.trace.describe import describe

    path = tmp_path / "long.csv"
    rows = "".join(f"{row},{10**8 + row},7\n" for row in range(9))
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    console = Console(width=80)
    console.print(trace_tables(describe(load_trace(path))))
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("│ sum "))
    assert line.split("│")[2].strip() == "900,000,036"
    assert "…" not in out
