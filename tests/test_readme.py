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
from sim.report.tables import seconds

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced code blocks of the README in `language`."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def own_policy() -> str:
    return next(block for block in blocks("python") if "@policy" in block)


def test_it_has_the_two_commands_of_one_line_each() -> None:
    first, second = (block.strip() for block in blocks("bash")[:2])
    assert first == "pip install . && python -m sim run configs/quickstart.yaml"
    assert second == "pip install '.[test]' && python -m pytest -n auto"


def test_every_command_it_names_is_there() -> None:
    named = re.findall(r"python -m sim ([a-z]+)", README.read_text(encoding="utf-8"))
    assert set(named) <= set(available())


def test_every_command_is_in_its_table() -> None:
    listed = re.findall(r"^\| `python -m sim ([a-z]+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(available())


def test_every_page_and_every_part_is_named() -> None:
    text = README.read_text(encoding="utf-8")
    for page in (README.parent / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text, f"link docs/{page.name} from the README"
    for package in (README.parent / "sim").glob("*/__init__.py"):
        assert f"    sim/{package.parent.name} " in text


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


def test_its_table_is_what_the_quickstart_gives() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_measured_table(text), "python -m tests.test_readme writes the table anew"


def with_measured_table(text: str) -> str:
    """`text` with the cells of its table as the quickstart gives them now."""
    measured = sim.compare(sim.load_config(README.parent / "configs" / "quickstart.yaml"))

    def row(found: re.Match[str]) -> str:
        name = found[1]
        if name == "output tokens/s":
            cells = [f"{value:,.0f}" for value in measured["throughput.output_tokens_per_s"]]
        else:
            metric, percentile = name.split()
            cells = [seconds(value) for value in measured[f"{metric.lower()}_s.{percentile}"]]
        return f"| {name} | {' | '.join(cells)} |"

    return re.sub(r"^\| (T\w+ p\d+|output tokens/s) \|.*\|$", row, text, flags=re.MULTILINE)


if __name__ == "__main__":
    README.write_text(with_measured_table(README.read_text(encoding="utf-8")), encoding="utf-8")
