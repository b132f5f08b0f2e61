"""The command `sweep`: what it prints, its exit codes, and progress on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from sim.cli import main

ODD = Path(__file__).with_name("odd_policy.py")
GRID = ["--grid", "policy.token_budget=64,128", "--grid", "trace.rate_scale=1,2", "--seeds", "2"]


def test_it_writes_one_tidy_table_and_says_where(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "config.yaml", *GRID, "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert "table: out-sweep/sweep.csv (8 of 8 cells)" in out
    assert "policy.token_budget" in out
    assert err == ""
    frame = pd.read_csv("out-sweep/sweep.csv")
    assert frame[["policy.token_budget", "trace.rate_scale", "seed"]].values.tolist()[:3] == [
        [64, 1, 0], [64, 1, 1], [64, 2, 0],
    ]
    assert sorted(path.name for path in Path("out-sweep").iterdir()) == ["sweep.csv", "sweep.journal"]


def test_a_long_table_shows_its_head(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "config.yaml", "--seeds", "50", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "the first 40 of 50 rows" in out
    assert "(50 of 50 cells)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grid", "policy.token_budget"], "--grid policy.token_budget: must look like section.key=value"),
        (["--grid", "policy.token_budget=1,[2"], "not valid YAML"),
        (["--grid", "policy.token_budgt=1"], "did you mean 'token_budget'"),
        (["--grid", "trace.limit=1", "--grid", "trace.limit=2"], "trace.limit is there twice"),
        (["--seeds", "0"], "seeds: must be an integer of at least 1, got 0"),
        (["--backend", "slurm"], "backend: unknown value 'slurm': allowed: loky, dask, ray"),
        (["--workers", "0"], "workers: must be an integer of at least 1, got 0"),
        (["--out", "trace.csv"], "trace.csv: cannot make the folder: File exists"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["sweep", "config.yaml", "--workers", "1", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_failed_cells_are_told_of_and_all_failing_is_exit_code_1(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = ["sweep", "config.yaml", "--set", f"policy={{path: {ODD}, name: odd}}", "--workers", "1"]
    assert main([*odd, "--grid", "policy.deed=none,raise"]) == 0
    assert "1 of 2 cells failed; the first, policy.deed=raise, seed=0: PolicyError" in capsys.readouterr().err
    assert main([*odd, "--grid", "policy.deed=raise", "--out", "all"]) == 1
    assert "1 of 1 cells failed" in capsys.readouterr().err


def test_notices_of_the_trace_are_passed_on_once(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Path("trace.csv").read_text().splitlines()
    Path("trace.csv").write_text("\n".join([rows[0], rows[2], rows[1], *rows[3:]]) + "\n")
    assert main(["sweep", "config.yaml", *GRID, "--workers", "1"]) == 0
    assert capsys.readouterr().err.count("rows were not in order of arrival") == 1


def test_progress_with_the_time_left_is_shown_on_a_terminal_only(tiny: Path, root: Path) -> None:
    command = [sys.executable, "-m", "sim", "sweep", "config.yaml", *GRID, "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(root), "TERM": "xterm", "COLUMNS": "120"}
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            while chunk := _read(ours):
                shown += chunk
        assert process.returncode == 0
    finally:
        os.close(ours)
    assert b"8/8 cells" in shown
    assert b"ETA" in shown

    piped = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert piped.stderr == b""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's end of file
        return b""
