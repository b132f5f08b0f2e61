"""What a sweep costs beside its simulations: 1,000 cells too small to matter, timed part by part.

    python benchmarks/sweep_overhead.py [--cells 1000] [--workers 2]

Prints the wall time a cell, and the CPU time of this process (which other work on the machine
lengthens less), of a bare loop over `sim.run`'s inner part, of the sweep in this process and on
worker processes, with and without a folder, and of resuming when all is done. docs/sweeps.md
quotes it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sim
from sim.api.inputs import build_inputs
from sim.api.simulation import measure_with

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    config = sim.load_config(ROOT / "configs" / "quickstart.yaml", {"trace.limit": 2})
    grid = {"policy.token_budget": list(range(64, 64 + arguments.cells))}
    cells = arguments.cells

    def timed(what: str, work: Callable[[], Any]) -> None:
        started, busy = time.perf_counter(), time.process_time()
        work()
        wall, cpu = time.perf_counter() - started, time.process_time() - busy
        print(f"{what:<44}{wall / cells * 1e3:8.2f}{cpu / cells * 1e3:8.2f}")

    inputs = build_inputs(config)
    print(f"{'ms a cell':<44}{'wall':>8}{'CPU':>8}")
    timed("the simulations alone", lambda: [measure_with(config, inputs) for _ in range(cells)])
    timed("sweep in this process (--workers 1)", lambda: sim.sweep(config, grid, workers=1))
    # starts the worker processes, which later sweeps of this process find running
    sim.sweep(config, {"policy.token_budget": [64, 65, 66, 67]}, workers=arguments.workers)
    on_workers = f"sweep on {arguments.workers} worker processes"
    timed(on_workers, lambda: sim.sweep(config, grid, workers=arguments.workers))
    with tempfile.TemporaryDirectory() as folder:
        in_folder = {"workers": arguments.workers, "out": folder}
        timed(f"{on_workers}, with a folder", lambda: sim.sweep(config, grid, **in_folder))
        timed("the same again, all cells in the journal", lambda: sim.sweep(config, grid, **in_folder))


if __name__ == "__main__":
    main()
