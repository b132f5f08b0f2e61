"""What only a process of its own shows: imports, repeatability, interrupts, the progress bar."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = [sys.executable, "-m", "sim"]

INTERRUPTING = '''
import os
import signal

from sim import policy


@policy("interrupted")
class Interrupted:
    """stall_free's first iterations, then Ctrl-C."""

    calls = 0

    def plan(self, step):
        self.calls += 1
        if self.calls == 3:
            os.kill(os.getpid(), signal.SIGINT)
        step.decode_all()
        for request in step.waiting:
            step.schedule(request)
'''


def simulator(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m sim` in the current folder."""
    environment = {**os.environ, "PYTHONPATH": str(root), **variables}
    return subprocess.run(
        [*PYTHON, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=listen_to_interrupts,
    )


def listen_to_interrupts() -> None:
    """A test run started in the background passes on that Ctrl-C is ignored; undo that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def imported_by(root: Path, *arguments: str) -> set[str]:
    """Top-level modules that a command imports."""
    done = simulator(root, *arguments, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_none_of_the_heavy_packages(root: Path, arguments: list[str]) -> None:
    heavy = {"numpy", "pandas", "matplotlib", "scipy", "pydantic", "yaml", "rich", "simpy"}
    assert imported_by(root, *arguments).isdisjoint(heavy)


def test_a_run_without_plots_imports_no_matplotlib(tiny: Path, root: Path) -> None:
    assert "matplotlib" not in imported_by(root, "run", "config.yaml")


def test_importing_sim_loads_nothing(root: Path) -> None:
    code = "import sim, sys; print([m for m in ('numpy', 'pandas', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_same_config_and_seed_give_the_same_bytes_in_two_processes(tiny: Path, root: Path) -> None:
    synthetic = "trace={synthetic: {num_requests: 60, arrivals: {rate_per_s: 40}, prompt_tokens: 200}}"
    for hash_seed in ("1", "2"):
        done = simulator(
            root, "run", "config.yaml", "--set", synthetic, "--out", hash_seed, PYTHONHASHSEED=hash_seed
        )
        assert done.returncode == 0, done.stderr
    for name in ("config.yaml", "requests.csv", "iterations.csv", "tbt.csv"):
        assert (tiny / "1" / name).read_bytes() == (tiny / "2" / name).read_bytes()
    assert without_timings(tiny / "1") == without_timings(tiny / "2")


def without_timings(folder: Path) -> str:
    """summary.json up to the simulator's own timings, which are its last entry but provenance."""
    import json

    summary = json.loads((folder / "summary.json").read_text())
    assert summary.pop("simulator")["wall_s"] > 0
    return json.dumps(summary)


def test_an_interrupted_run_keeps_what_was_served(tiny: Path, root: Path) -> None:
    (tiny / "interrupting.py").write_text(INTERRUPTING)
    done = simulator(root, "run", "config.yaml", "--set", "policy={path: interrupting.py}")
    assert done.returncode == 130
    assert done.stderr == "interrupted; what was served until then is in out\n"
    assert "unfinished" in (tiny / "out" / "requests.csv").read_text()


def test_an_interrupted_comparison_keeps_the_finished_runs(tiny: Path, root: Path) -> None:
    (tiny / "interrupting.py").write_text(INTERRUPTING)
    policies = "static,interrupting.py:interrupted,continuous"
    done = simulator(root, "compare", "config.yaml", "--policies", policies, "--out", "both")
    assert done.returncode == 130
    assert done.stderr == "interrupted; what was finished is in both\n"
    assert (tiny / "both/static/summary.json").is_file()
    assert not (tiny / "both/continuous").exists()
    assert [line.split(",")[1] for line in (tiny / "both/comparison.csv").read_text().splitlines()] == [
        "policy",
        "static",
        "interrupted",
    ]


def test_progress_is_shown_on_a_terminal_and_not_in_a_pipe(tiny: Path, root: Path) -> None:
    assert simulator(root, "run", "config.yaml").stderr == ""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(root), "TERM": "xterm"}
    done = subprocess.run(
        [*PYTHON, "run", "config.yaml"], env=environment, stdout=subprocess.PIPE, stderr=terminal, check=True
    )
    os.close(terminal)
    bar = os.read(controller, 1 << 16).decode()
    assert "/3 requests" in bar and "None" not in bar
    os.close(controller)
    assert b"TTFT" in done.stdout


def test_a_reader_that_goes_away_is_no_traceback(root: Path) -> None:
    command = f"{sys.executable} -m sim policies | true"
    done = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr == ""
