"""What the commands leave behind and print, on a trace of three requests."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

import sim
from sim.cli import COMMANDS, main

RUN_FOLDER = {"config.yaml", "summary.json", "requests.csv", "iterations.csv"}
PLOTS = {"distributions.png", "timeline.png", "load.png", "throughput.png"}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def no_simulation(*_: object, **__: object) -> None:
    raise AssertionError("simulated")


def test_run_prints_a_table_and_writes_the_run_folder(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "config.yaml"]) == 0
    printed = capsys.readouterr()
    assert "TTFT" in printed.out and "run folder: out" in printed.out
    assert printed.err == ""
    assert names(tiny / "out") >= RUN_FOLDER
    assert "plots" not in names(tiny / "out")
    assert json.loads((tiny / "out/summary.json").read_text())["num_finished"] == 3


def test_out_goes_before_the_config_and_the_config_before_the_name(tiny: Path) -> None:
    assert main(["run", "config.yaml", "--out", "here"]) == 0
    assert main(["run", "config.yaml", "--set", "output.dir=null"]) == 0
    assert names(tiny / "here") >= RUN_FOLDER
    assert names(tiny / "runs" / "tiny") >= RUN_FOLDER


def test_run_draws_the_plots_and_plot_draws_them_again_without_simulating(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", "config.yaml", "--set", "output.plots=true"]) == 0
    plots = tiny / "out" / "plots"
    assert names(plots) == PLOTS
    first = {path.name: path.read_bytes() for path in plots.iterdir()}
    for path in plots.iterdir():
        path.unlink()
    monkeypatch.setattr("sim.api.simulation.simulate", no_simulation)
    assert main(["plot", "out"]) == 0
    assert {path.name: path.read_bytes() for path in plots.iterdir()} == first


def test_run_with_a_compare_section_runs_those_policies_beside_its_own(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = "compare.policies=[static, stall_free]"
    assert main(["run", "config.yaml", "--set", policies, "--set", "output.plots=true"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("static") < printed.index("stall_free")
    assert names(tiny / "out") >= RUN_FOLDER | {"policies", "comparison.csv"}
    assert sim.load_run("out").config["policy"]["name"] == "stall_free"
    assert sim.load_run("out/policies/static").config["policy"]["name"] == "static"
    table = pd.read_csv("out/comparison.csv")
    assert table[["folder", "policy", "seed"]].values.tolist() == [
        ["policies/static", "static", 0],
        [".", "stall_free", 0],
    ]
    first = (tiny / "out/plots/timeline.png").read_bytes()
    monkeypatch.setattr("sim.api.simulation.simulate", no_simulation)
    assert main(["plot", "out"]) == 0
    assert (tiny / "out/plots/timeline.png").read_bytes() == first


def test_run_replaces_an_older_run(tiny: Path) -> None:
    for budget in (64, 128):
        assert main(["run", "config.yaml", "--set", f"policy.token_budget={budget}"]) == 0
    assert yaml.safe_load((tiny / "out/config.yaml").read_text())["policy"]["token_budget"] == 128
    assert not [path for path in tiny.iterdir() if path.name.startswith(".")]


def test_compare_pairs_policies_and_seeds(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "config.yaml", "--policies", "static,continuous", "--seeds", "2"]) == 0
    assert "continuous" in capsys.readouterr().out
    table = pd.read_csv("out-compare/comparison.csv")
    assert table[["policy", "seed"]].values.tolist() == [
        ["static", 0],
        ["continuous", 0],
        ["static", 1],
        ["continuous", 1],
    ]
    for folder in table["folder"]:
        assert names(tiny / "out-compare" / folder) >= RUN_FOLDER


def test_compare_without_policies_takes_all_of_them(tiny: Path) -> None:
    assert main(["compare", "config.yaml"]) == 0
    listed = set(pd.read_csv("out-compare/comparison.csv")["policy"])
    assert listed >= {"static", "continuous", "prefill_first", "stall_free"}


def test_policies_of_one_name_are_told_apart_by_their_labels(tiny: Path) -> None:
    budgets = [{"name": "stall_free", "token_budget": n, "label": f"budget {n}"} for n in (64, 128)]
    frame = sim.compare(sim.load_config("config.yaml"), budgets)
    assert frame["policy"].tolist() == ["budget 64", "budget 128"]
    assert frame["ttft_s.mean"].nunique() == 2


def test_plot_draws_several_runs_together_where_told(tiny: Path) -> None:
    assert main(["run", "config.yaml", "--out", "a"]) == 0
    assert main(["run", "config.yaml", "--out", "b", "--set", "policy.name=static"]) == 0
    assert main(["plot", "a", "b", "--out", "both"]) == 0
    assert names(tiny / "both") == PLOTS


def test_policies_lists_each_with_meaning_source_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies"]) == 0
    printed = capsys.readouterr().out
    for name in ("static", "continuous", "prefill_first", "stall_free"):
        assert f"{name}\n" in printed
    assert "token_budget: tokens an iteration" in printed and "source: Sarathi-Serve" in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert main(["policies", "static"]) == 0
    assert "stall_free" not in capsys.readouterr().out


def test_help_lists_the_commands_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    for name in ("run", "compare", "plot", "policies"):
        assert f"    {name}" in printed and COMMANDS[name] in printed


def test_a_result_round_trips_through_its_folder(tiny: Path) -> None:
    result = sim.run(sim.load_config("config.yaml"))
    result.save("saved", plots=False)
    again = sim.load_run("saved")
    assert again.summary == result.summary
    pd.testing.assert_frame_equal(again.requests, result.requests, check_dtype=False)
    pd.testing.assert_frame_equal(again.iterations, result.iterations, check_dtype=False)
    assert repr(again) == "Result('stall_free', 3/3 requests finished)"


def test_the_report_says_that_a_policy_knew_the_output_lengths(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "note: policy.oracle: the policy may read true output lengths"
    assert main(["run", "config.yaml"]) == 0
    assert said not in capsys.readouterr().out
    assert main(["run", "config.yaml", "--set", "policy.oracle=true"]) == 0
    assert said in capsys.readouterr().out
    assert sim.load_run("out").summary["provenance"]["oracle"] is True
