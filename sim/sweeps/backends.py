"""Backends: opening joblib on processes of this machine, on a Dask or on a Ray cluster.

Dask and Ray are optional (extras `dask`, `ray`), imported only when asked for. Without an address a
cluster is started on this machine for the time of the sweep.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import joblib

from sim.core.errors import ConfigError, UserError, suggestion
from sim.sweeps.pool import Pool
from sim.sweeps.worker import belong_to

BACKENDS = ("loky", "dask", "ray")
KNOCK_S = 10
"""How long a cluster may take to answer at its address."""
WAIT_S = 60
"""How long a Dask cluster may be without workers, as when it starts them anew."""


def check_backend(backend: str, workers: int | None, address: str | None) -> None:
    """Raise ConfigError unless open_pool could make sense of these."""
    if backend not in BACKENDS:
        raise ConfigError(f"backend: unknown value {backend!r}: {suggestion(backend, BACKENDS)}")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ConfigError(f"workers: must be an integer of at least 1, got {workers!r}")
    if backend == "loky" and address is not None:
        raise ConfigError(f"address: {address!r} is for --backend dask or ray; loky runs on this machine")
    if backend == "dask" and address is not None and workers is not None:
        raise ConfigError("workers: a Dask cluster at an address has its own; leave one of the two out")


@contextmanager
def open_pool(
    backend: str, workers: int | None = None, address: str | None = None, *, cells: int
) -> Iterator[Pool]:
    """Workers of `backend` for so many cells, for the time of the block; by default one a core.

    UserError if the package is missing or nothing answers at `address`.
    """
    check_backend(backend, workers, address)
    here = min(workers or joblib.cpu_count(), max(2, cells))
    if backend == "loky":
        options = {"initializer": belong_to, "initargs": (os.getpid(),)}
        yield Pool(lambda: nullcontext("loky"), here, options)
        return
    with ExitStack() as stack:
        open_cluster = _dask_pool if backend == "dask" else _ray_pool
        yield open_cluster(stack, here if address is None else workers, address)


def _dask_pool(stack: ExitStack, workers: int | None, address: str | None) -> Pool:
    distributed = _extra("distributed", "dask")
    joblib_dask = importlib.import_module("joblib._dask")
    if address is None:
        where: Any = stack.enter_context(
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs="CRITICAL",
            )
        )
    else:
        where = address

    class Dask(joblib_dask.DaskDistributedBackend):  # type: ignore[name-defined, misc]
        """joblib's, which would wait for ever for a task whose worker died."""

        def effective_n_jobs(self, n_jobs: int) -> int:
            cores: int = super().effective_n_jobs(n_jobs)
            return max(2, cores)  # joblib would make of one worker this process

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(lambda done: callback(done.exception()) if done.exception() else None)
            return future

    @contextmanager
    def connect() -> Iterator[Any]:
        try:
            client = distributed.Client(where, set_as_default=False, timeout=KNOCK_S)
        except (OSError, ValueError) as error:
            raise UserError(f"address: no Dask scheduler answers at {address}: {error}") from None
        with client:  # a client of its own for each call: the cluster forgets the tasks of one that leaves
            yield Dask(client=client, wait_for_workers_timeout=WAIT_S)

    return Pool(connect, 2, place=address or "the local Dask cluster")


def _ray_pool(stack: ExitStack, workers: int | None, address: str | None) -> Pool:
    ray = _extra("ray", "ray")
    joblib_ray = importlib.import_module("ray.util.joblib.ray_backend")
    if not ray.is_initialized():
        _start_ray(ray, workers, address)
        stack.callback(ray.shutdown)
    elif address is not None:
        raise ConfigError("address: this process is already connected to a Ray cluster; leave it out")

    class Ray(joblib_ray.RayBackend):  # type: ignore[name-defined, misc]
        """Ray's, whose results can be had as they come, which joblib does not know."""

        supports_return_generator = True

    cores = int(ray.cluster_resources().get("CPU", 1))
    actors = max(2, min(workers or cores, cores))
    return Pool(lambda: nullcontext(Ray()), actors, place=address or "the local Ray")


def _start_ray(ray: Any, workers: int | None, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        path = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
        ray.init("local", num_cpus=workers, include_dashboard=False, runtime_env=path, **quiet)
        return
    try:
        _knock(address)
        ray.init(address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"address: no Ray cluster answers at {address}: {error}") from None


def _knock(address: str) -> None:
    """Raise OSError at once where nothing listens at host:port, for which Ray would wait minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=KNOCK_S).close()


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"--backend {extra} needs the package {module}: pip install 'llm-scheduler-sim[{extra}]'"
        ) from None
