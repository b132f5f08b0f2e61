"""Dask and Ray give the very table that processes of this machine give, with real workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import sim
from sim.sweeps.pool import DIED

pytestmark = pytest.mark.extras

ODD = Path(__file__).with_name("odd_policy.py")
GRID = {"policy.deed": ["none", "raise"], "policy.max_batch_size": [1, 2, 4]}
DEADLY = {"policy": [{"path": str(ODD), "name": "odd", "deed": deed, "dawdle_s": dawdle_s}
                     for deed, dawdle_s in (("none", 0.0), ("die", 0.0), ("none", 0.1), ("none", 0.2))]}


@pytest.fixture
def config(tiny: Path) -> Any:
    values = yaml.safe_load(Path("config.yaml").read_text())
    values["policy"] = {"path": str(ODD), "name": "odd"}
    return sim.load_config(values)


@pytest.fixture
def expected(config: Any) -> bytes:
    """The table of two worker processes of this machine."""
    sim.sweep(config, GRID, seeds=2, workers=2, out="loky")
    return Path("loky/sweep.csv").read_bytes()


@pytest.fixture
def dask() -> Any:
    """Asked for first, so that nothing is computed where Dask is not installed."""
    return pytest.importorskip("distributed")


@pytest.fixture
def ray() -> Any:
    """Asked for first, so that nothing is computed where Ray is not installed."""
    return pytest.importorskip("ray")


@pytest.fixture
def dask_address(dask: Any) -> Iterator[str]:
    """A cluster of two worker processes that was there before."""
    with dask.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs="CRITICAL"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def ray_environment(root: Path) -> dict[str, str]:
    """For a Ray head of this test's own: its processes find the package and need no token."""
    return {**os.environ, "PYTHONPATH": str(root), "RAY_AUTH_MODE": "disabled"}


@pytest.fixture
def ray_address(ray: Any, ray_environment: dict[str, str]) -> Iterator[str]:
    """A Ray head of two cores that was there before."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = ["start", "--head", "--block", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    head = subprocess.Popen(
        [str(Path(sys.executable).with_name("ray")), *start, "--disable-usage-stats"],
        env=ray_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert head.stdout is not None
    for line in head.stdout:
        if "Ray runtime started" in line:
            break
    yield f"127.0.0.1:{port}"
    os.killpg(head.pid, signal.SIGKILL)
    head.communicate(timeout=60)


def test_a_dask_cluster_at_an_address(dask_address: str, config: Any, expected: bytes) -> None:
    sim.sweep(config, GRID, seeds=2, backend="dask", address=dask_address, out="dask")
    assert Path("dask/sweep.csv").read_bytes() == expected


def test_a_dask_cluster_of_its_own(dask: Any, config: Any, expected: bytes) -> None:
    sim.sweep(config, GRID, seeds=2, backend="dask", workers=2, out="dask")
    assert Path("dask/sweep.csv").read_bytes() == expected


def test_a_cell_that_kills_dask_workers_is_a_row_and_the_others_go_on(config: Any, dask_address: str) -> None:
    frame = sim.sweep(config, DEADLY, backend="dask", address=dask_address)
    assert frame["error"].isna().tolist() == [True, False, True, True]
    assert frame["error"][1] == DIED


def test_a_cell_that_kills_ray_workers_is_a_row_and_the_others_go_on(ray: Any, config: Any) -> None:
    frame = sim.sweep(config, DEADLY, backend="ray", workers=2)
    assert frame["error"].isna().tolist() == [True, False, True, True]
    assert frame["error"][1] == DIED


def test_work_is_shared_out_among_dask_workers(config: Any, dask_address: str) -> None:
    grid = {"policy.deed": ["whoami"], "policy.dawdle_s": [0.1], "policy.max_batch_size": list(range(1, 13))}
    frame = sim.sweep(config, grid, backend="dask", address=dask_address)
    processes = set(frame["error"].str.extract(r"process (\d+)")[0])
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


def test_ray_at_an_address(
    ray_address: str, config: Any, expected: bytes, ray_environment: dict[str, str]
) -> None:
    # by the command, since a process keeps for good how it met its first Ray
    Path("odd.yaml").write_text(config.to_yaml())
    grid = [f"--grid={key}={','.join(map(str, values))}" for key, values in GRID.items()]
    command = [sys.executable, "-m", "sim", "sweep", "odd.yaml", *grid, "--seeds=2", "--out=ray"]
    where = ["--backend=ray", f"--address={ray_address}"]
    subprocess.run([*command, *where], env=ray_environment, check=True)
    assert Path("ray/sweep.csv").read_bytes() == expected


def test_ray_of_its_own_goes_on_where_loky_was_stopped(ray: Any, config: Any, expected: bytes) -> None:
    lines = Path("loky/sweep.journal").read_bytes().splitlines(keepends=True)
    Path("loky/sweep.journal").write_bytes(b"".join(lines[:4]))
    sim.sweep(config, GRID, seeds=2, backend="ray", workers=2, out="loky")
    assert Path("loky/sweep.csv").read_bytes() == expected


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_where_nothing_answers_is_told(config: Any, backend: str, package: str) -> None:
    pytest.importorskip(package)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"  # bound, but not listening
        with pytest.raises(sim.UserError, match=f"answers at {address}"):
            sim.sweep(config, GRID, backend=backend, address=address)
