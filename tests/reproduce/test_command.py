"""`python -m sim reproduce`: what it prints and writes, and its page of results."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import sim
from sim.cli import main
from sim.reproduce import REPRODUCTIONS
from sim.reproduce.configs import reproduction_config


def test_it_prints_the_table_and_writes_findings_figures_and_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "generation_stall", "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "reduced size" in printed
    assert "longest time without any decode token" in printed
    folder = tmp_path / "generation_stall"
    findings = pd.read_csv(folder / "findings.csv")
    assert list(findings) == ["quantity", "paper", "ours", "low", "high", "unit"]
    assert (folder / "tokens_over_time.png").stat().st_size > 10_000
    assert {path.name for path in (folder / "plots").iterdir()} >= {"timeline.png", "distributions.png"}
    assert sim.load_run(folder / "runs" / "stall_free").summary["num_finished"] == 80


def test_a_wrong_name_is_the_users_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "orca"]) == 2
    assert "unknown reproduction 'orca'" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "configs/reproductions").glob("*.yaml")))
def test_every_config_is_one_that_run_takes_and_names_its_command(path: Path) -> None:
    config = reproduction_config(path.stem)
    assert config.name == path.stem
    assert config.compare.policies
    named = re.findall(r"python -m sim reproduce (\w+)", path.read_text(encoding="utf-8"))
    assert named and set(named) <= set(REPRODUCTIONS)


def test_the_page_has_every_reproduction_with_its_command_and_figure(root: Path) -> None:
    page = (root / "docs" / "reproductions.md").read_text(encoding="utf-8")
    for name in REPRODUCTIONS:
        assert f"python -m sim reproduce {name}" in page
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert target.startswith("http") or (root / "docs" / target).exists(), target
