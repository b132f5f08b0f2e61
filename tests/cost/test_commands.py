"""`calibrate` and `cost` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.cli import main

MEASURED = Path(__file__).resolve().parents[2] / "configs" / "cost" / "measured" / "a100-80gb-yi-34b-tp2"


def test_calibrate_writes_a_file_that_cost_show_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "yi.yaml"
    hardware = ["--model", "yi-34b", "--gpu", "a100-80gb", "--tensor-parallel", "2"]
    assert main(["calibrate", str(MEASURED), *hardware, "--out", str(out), "--plot"]) == 0
    said = capsys.readouterr()
    assert "held out" in said.out and "worst row" in said.out
    assert "all decodes were measured at one context" in said.err
    assert out.with_suffix(".png").stat().st_size > 10_000
    picture = tmp_path / "show.png"
    assert main(["cost", "show", str(out), "--plot", str(picture)]) == 0
    said = capsys.readouterr()
    assert "decode-only iteration" in said.out and "* outside the measured range" in said.out
    assert picture.stat().st_size > 10_000


def test_cost_list_names_the_shipped_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "list"]) == 0
    assert "a100-80gb-yi-34b-tp2" in capsys.readouterr().out


def test_a_wrong_source_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(tmp_path), "--out", str(tmp_path / "x.yaml")]) == 2
    assert "holds none of dense.csv" in capsys.readouterr().err
    assert main(["cost", "show", "nowhere"]) == 2
    assert "no cost model file 'nowhere'; shipped:" in capsys.readouterr().err
    assert not (tmp_path / "x.yaml").exists()
