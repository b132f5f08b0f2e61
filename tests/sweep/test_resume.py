"""A sweep that was stopped goes on from what was finished, and only with the sweep it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import sim
from sim.sweeps import pool
from sim.sweeps.worker import Outcome, Task

ODD = Path(__file__).with_name("odd_policy.py")
GRID = {"policy.token_budget": [64, 512], "trace.rate_scale": [0.5, 1.0, 3.0]}
CELLS = 6
JOURNAL = Path("out/sweep.journal")
TABLE = Path("out/sweep.csv")


@pytest.fixture
def config(tiny: Path) -> Any:
    return sim.load_config("config.yaml")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Indices of the cells that were simulated."""
    cells: list[int] = []
    original = pool.run_cell

    def run_cell(task: Task) -> Outcome:
        cells.append(task.index)
        return original(task)

    monkeypatch.setattr(pool, "run_cell", run_cell)
    return cells


def sweep(config: Any, grid: Any = GRID, **options: Any) -> Any:
    return sim.sweep(config, grid, **{"workers": 1, "out": "out", **options})


def test_cut_off_at_any_line_or_within_only_the_unfinished_is_redone(config: Any, ran: list[int]) -> None:
    sweep(config)
    content, table = JOURNAL.read_bytes(), TABLE.read_bytes()
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    for whole, end in enumerate(ends):
        for cut in {end, min(end + 1, len(content)), min(end + 40, len(content))}:
            TABLE.unlink()
            JOURNAL.write_bytes(content[:cut])
            ran.clear()
            sweep(config)
            assert ran == list(range(whole, CELLS))
            assert TABLE.read_bytes() == table


def test_killed_before_anything_was_written_it_starts_over(config: Any, ran: list[int]) -> None:
    sweep(config)
    for cut in (0, 1, 30):
        JOURNAL.write_bytes(JOURNAL.read_bytes()[:cut])
        ran.clear()
        sweep(config)
        assert len(ran) == CELLS


def test_a_sweep_that_is_done_writes_its_table_again_and_runs_nothing(config: Any, ran: list[int]) -> None:
    frame = sweep(config)
    TABLE.unlink()
    ran.clear()
    assert sweep(config).equals(frame)
    assert (ran, TABLE.exists()) == ([], True)


def test_it_goes_on_with_other_workers(config: Any, ran: list[int]) -> None:
    sweep(config)
    table = TABLE.read_bytes()
    JOURNAL.write_bytes(b"".join(JOURNAL.read_bytes().splitlines(keepends=True)[:3]))
    ran.clear()
    sweep(config, workers=2)
    assert TABLE.read_bytes() == table


def refused(message: str, config: Any, grid: Any = GRID, **options: Any) -> None:
    before = JOURNAL.read_bytes()
    with pytest.raises(sim.UserError) as caught:
        sweep(config, grid, **options)
    assert message in str(caught.value)
    assert "Choose another folder (--out), or discard what is there (--restart" in str(caught.value)
    assert JOURNAL.read_bytes() == before


def test_another_grid_config_or_number_of_seeds_is_refused_and_named(config: Any, tiny: Path) -> None:
    sweep(config)
    fewer = {**GRID, "policy.token_budget": [64]}
    refused("out holds another sweep: grid policy.token_budget was [64, 512], now [64]", config, fewer)
    more = {**GRID, "policy.max_batch_size": [2]}
    refused("grid policy.max_batch_size was not there, now [2]", config, more)
    turned = dict(reversed(GRID.items()))
    refused("grid's order was ['policy.token_budget', 'trace.rate_scale'], now ['trace", config, turned)
    refused("seeds was 1, now 3", config, seeds=3)
    other = {"policy.max_batch_size": 3, "slo.ttft_s": 0.5}
    both = "policy.max_batch_size was 4, now 3; slo.ttft_s was null, now 0.5"
    refused(both, sim.load_config("config.yaml", other))


def test_a_changed_trace_or_policy_file_is_refused(tiny: Path) -> None:
    values = yaml.safe_load(Path("config.yaml").read_text())
    Path("mine.py").write_text(ODD.read_text())
    values["policy"] = {"path": "mine.py", "name": "odd"}
    config, grid = sim.load_config(values), {"policy.max_batch_size": [1, 2]}
    sweep(config, grid)
    Path("mine.py").write_text(ODD.read_text() + "\n# edited\n")
    refused("mine.py has changed since", config, grid)
    Path("mine.py").write_text(ODD.read_text())
    Path("trace.csv").write_text(Path("trace.csv").read_text().replace("200", "201"))
    refused("trace.csv has changed since", config, grid)


def test_changed_code_of_the_simulator_is_refused(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(config)
    monkeypatch.setattr("sim.sweeps.runner.code_digest", lambda: "another")
    refused("the simulator's code has changed since (version ", config)


def test_what_changes_no_row_is_not_another_sweep(config: Any, ran: list[int]) -> None:
    sweep(config)
    ran.clear()
    sweep(sim.load_config("config.yaml", {"name": "other", "output.dir": "elsewhere", "compare.seeds": 4}))
    assert ran == []


def test_restart_discards_what_is_there(config: Any, ran: list[int]) -> None:
    sweep(config)
    ran.clear()
    assert len(sweep(config, {"trace.rate_scale": [1, 2]}, restart=True)) == 2
    assert ran == [0, 1]


def test_a_file_that_is_no_journal_is_left_alone(config: Any) -> None:
    JOURNAL.parent.mkdir()
    JOURNAL.write_text("my notes\non sweeping\n")
    refused("holds a file sweep.journal that is not one", config)


def test_failed_cells_stay_failed_unless_they_are_to_be_retried(tiny: Path, ran: list[int]) -> None:
    values = yaml.safe_load(Path("config.yaml").read_text())
    values["policy"] = {"path": str(ODD), "name": "odd"}
    config, grid = sim.load_config(values), {"policy.deed": ["raise", "none"]}
    table = sweep(config, grid)
    ran.clear()
    sweep(config, grid)
    assert ran == []
    assert sweep(config, grid, retry_failed=True).equals(table)
    assert ran == [0]


def dawdling(seconds: float) -> list[str]:
    """A command of 12 cells, each of which sleeps so long."""
    policy = f"policy={{path: {ODD}, name: odd, dawdle_s: {seconds}}}"
    grid = "policy.max_batch_size=" + ",".join(map(str, range(1, 13)))
    sweep = [sys.executable, "-m", "sim", "sweep", "config.yaml", "--set", policy, "--grid", grid]
    return [*sweep, "--out", "out", "--workers", "2"]


def started(command: list[str], root: Path) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(happened: Callable[[], bool], what: str) -> None:
    for _ in range(1200):
        if happened():
            return
        time.sleep(0.05)
    pytest.fail(f"waited in vain until {what}")


def finished() -> int:
    return JOURNAL.read_bytes().count(b"\n") - 1 if JOURNAL.exists() else 0


def running(group: int) -> bool:
    """Whether a process of the group is alive, not counting the dead that none has waited for."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(
        int(line.split()[0]) == group and not line.split()[1].startswith("Z")
        for line in listed.splitlines()
    )


def test_killed_in_the_middle_it_redoes_only_what_was_unfinished(tiny: Path, root: Path) -> None:
    command = dawdling(0.2)
    process = started(command, root)
    wait_until(lambda: finished() >= 4, "four cells were finished")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kept = JOURNAL.read_bytes()
    assert kept.count(b"\n") < 13
    assert not TABLE.exists()
    wait_until(lambda: not running(process.pid), "the killed sweep's workers had ended")

    again = started(command, root)
    assert again.wait(timeout=120) == 0, again.communicate()
    assert JOURNAL.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
    assert JOURNAL.read_bytes().count(b"\n") == 13
    uninterrupted = [*command[:-3], "whole", "--workers", "2"]
    assert started(uninterrupted, root).wait(timeout=120) == 0
    assert TABLE.read_bytes() == Path("whole/sweep.csv").read_bytes()


@pytest.mark.parametrize("whole_group", [True, False])
def test_ctrl_c_leaves_what_is_finished_and_says_how_to_go_on(
    tiny: Path, root: Path, whole_group: bool
) -> None:
    process = started(dawdling(0.2), root)
    wait_until(lambda: finished() >= 4, "four cells were finished")
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "interrupted; the same command goes on from here"
    rows = TABLE.read_text().splitlines()[1:]
    assert 4 <= len(rows) == finished() < 12
    assert f"({len(rows)} of 12 cells)" in out
    assert all(row.endswith(",") for row in rows)  # no error
    wait_until(lambda: not running(process.pid), "its workers had ended")


def test_ctrl_c_in_python_returns_the_finished_rows(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    frame = sweep(config, progress=interrupt)
    assert (len(frame), frame.attrs["interrupted"]) == (2, True)
    assert sweep(config).attrs["interrupted"] is False
