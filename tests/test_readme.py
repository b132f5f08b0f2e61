"""The README holds: its commands exist, its policy runs, its numbers are what the command prints.

Its two set-up commands are run whole, as a newcomer would, by .ci/run.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import sim
from sim.cli import available, main

README = Path(__file__).parents[1] / "README.md"
SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}


def blocks(language: str) -> list[str]:
    """The fenced code blocks of the README in `language`."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def own_policy() -> str:
    return next(block for block in blocks("python") if "@policy" in block)


def test_it_has_the_two_commands_of_one_line_each() -> None:
    first, second = (block.strip() for block in blocks("bash")[:2])
    assert first == "pip install . && python -m sim run configs/quickstart.yaml"
    assert second == "pip install '.[test]' && python -m pytest"


def test_every_command_it_names_is_there() -> None:
    named = re.findall(r"python -m sim ([a-z]+)", README.read_text(encoding="utf-8"))
    assert set(named) <= set(available())


def test_every_file_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).exists(), target


def test_its_policy_is_short_and_its_command_runs(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_policy().count("\n") < 40
    monkeypatch.chdir(tmp_path)
    Path("my_policy.py").write_text(own_policy(), encoding="utf-8")
    command = next(block for block in blocks("bash") if "my_policy" in block)
    arguments = shlex.split(command.replace("configs/", f"{root}/configs/"))[3:]
    assert main([*arguments, "--set", "output.plots=false", "--set", "trace.limit=100"]) == 0
    assert sim.load_run("runs/quickstart-compare/shortest_prompt_first").summary["num_finished"] == 100


def test_its_python_example_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    example = next(block for block in blocks("python") if "sim.run(cfg)" in block)
    exec(compile(example, str(README), "exec"), {})


def test_its_table_is_what_the_quickstart_gives(root: Path) -> None:
    rows = re.findall(r"^\| (T\w+ p\d+|output tokens/s) \|(.*)\|$", README.read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 5
    measured = sim.compare(sim.load_config(root / "configs" / "quickstart.yaml"))
    for name, cells in rows:
        printed = [number(cell) for cell in cells.split("|")]
        assert printed == pytest.approx(measured[column(name)].tolist(), rel=0.005), name


def number(cell: str) -> float:
    """`58.9 ms` in seconds; `1,243` as it is."""
    value, _, unit = cell.strip().partition(" ")
    return float(value.replace(",", "")) * SECONDS.get(unit, 1.0)


def column(name: str) -> str:
    if name == "output tokens/s":
        return "throughput.output_tokens_per_s"
    metric, percentile = name.split()
    return f"{metric.lower()}_s.{percentile}"
