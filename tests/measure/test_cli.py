"""`python -m sim profile` against the test server on loopback, on the real clock. No time is asserted."""

from __future__ import annotations

import asyncio
import csv
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sim.cli import main
from tests.measure.engine import Coefficients
from tests.measure.server import Server

FAST = Coefficients(decode_base=2_000.0, mixed_base=3_000.0, mixed_per_token=10.0)
SIZES = ["--prompts=16,64", "--batch-sizes=1,2", "--token-budget=64", "--chunks=1", "--repeats=1"]
COLUMNS = ["num_prefill_tokens", "prefill_cached_tokens", "num_decodes", "decode_context_tokens", "time_us"]


@contextmanager
def serving(costs: Coefficients) -> Iterator[Server]:
    """The server in a thread of its own."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[tuple[Server, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with Server(costs, token_budget=64, front_end_s=0.001) as server:
            found.append((server, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait(10)
    server, loop = found[0]
    yield server
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "iterations.csv").open() as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert reader.fieldnames == COLUMNS
    return rows


def test_it_says_what_it_will_send_and_writes_the_table(tmp_path, capsys):
    with serving(FAST) as server:
        folder = str(tmp_path / "p")
        code = main(["profile", "--url", server.url, "--out", folder, "--contexts", "16", *SIZES])
        sent = server.requests
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert f"measuring {server.url}: {sent} requests" in shown.out
    assert "at most 2,000 requests, 3,000,000 tokens, 1,800 s" in shown.out
    assert "next: python -m sim calibrate" in shown.out
    assert table(tmp_path / "p")
    meta = yaml.safe_load((tmp_path / "p" / "meta.yaml").read_text())
    assert (meta["model"], meta["complete"], meta["sent"]["requests"]) == ("toy-model", True, sent)
    assert (tmp_path / "p" / "samples.csv").exists()


def test_a_dry_run_sends_nothing(tmp_path, capsys):
    code = main(["profile", "--url", "http://127.0.0.1:1/v1", "--out", str(tmp_path / "p"), "--dry-run"])
    assert code == 0
    assert "requests" in capsys.readouterr().out
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-requests", "3"], "error: --max-requests 3: the plan needs "),
        (["--batch-sizes", "1,x"], "'1,x': integers separated by commas"),
        (["--api-key-env", "NO_SUCH_KEY"], "error: --api-key-env NO_SUCH_KEY: that variable is not set"),
        ([], "cannot connect"),
    ],
)
def test_what_the_user_gets_wrong_exits_2(tmp_path, capsys, arguments, message):
    code = main(["profile", "--url", "http://127.0.0.1:1/v1", "--out", str(tmp_path / "p"), *arguments])
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_ctrl_c_leaves_the_finished_rows(tmp_path):
    out = tmp_path / "p"
    with serving(FAST) as server:
        contexts = ",".join(map(str, range(16, 66)))
        command = [sys.executable, "-m", "sim", "profile", "--url", server.url, "--out", str(out)]
        process = subprocess.Popen(
            [*command, "--contexts", contexts, *SIZES],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        deadline = time.monotonic() + 60
        while not (out / "iterations.csv").exists() or len(table(out)) < 3:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert len(table(out)) >= 3
    assert "not complete; the rows so far are usable" in said
    assert "measured iterations" in printed
    assert yaml.safe_load((out / "meta.yaml").read_text())["complete"] is False


def test_without_httpx_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    for module in ("sim.measure.runner", "sim.measure.client"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert main(["profile", "--url", "http://127.0.0.1:1/v1", "--out", str(tmp_path / "p")]) == 2
    assert "profile needs httpx: pip install 'llm-scheduler-sim[profile]'" in capsys.readouterr().err
