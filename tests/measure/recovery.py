"""Measure the test server, calibrate, and tabulate the fitted times against the true ones.

    python -m tests.measure.recovery --virtual
    python -m tests.measure.recovery

The first runs server and client on a virtual clock, tokens sent late by 0.3 ms on average: the same
figures on any machine, in seconds. The second starts the server in a process of its own and runs
`sim profile` and `sim calibrate` as a user would, on the real clock; it takes about a minute and wants
a machine with nothing else to do. Exit code 1 if any time is off by more than 3 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel
from sim.cost import load_cost_model
from sim.cost.calibration import Options, calibrate
from sim.measure.plan import Grid
from sim.measure.table import write_table
from tests.measure.engine import Coefficients
from tests.measure.measuring import measure

LIMIT_PCT = 3.0

Case = tuple[int, int, int, int]
"""New prompt tokens, cached tokens, decodes, context of each decode."""

UNSEEN: tuple[Case, ...] = (
    (0, 0, 1, 300),
    (0, 0, 3, 300),
    (0, 0, 6, 400),
    (0, 0, 12, 600),
    (200, 0, 0, 0),
    (400, 0, 0, 0),
    (300, 512, 0, 0),
    (100, 256, 5, 400),
    (500, 0, 8, 500),
)
"""Iterations between the measured ones."""


def compare(model: CostModel, costs: Coefficients) -> list[tuple[Case, float, float]]:
    """Each unseen case with its true and its fitted time, microseconds."""
    found = []
    for case in UNSEEN:
        new, cached, decodes, context = case
        contexts = [context] * decodes
        chunks = (Chunk(new, cached),) if new else ()
        batch = Batch(decodes, sum(contexts), context, context, chunks)
        true_us = costs.mixed_us(contexts, [(new, cached)]) if new else costs.decode_us(contexts)
        found.append((case, true_us, model.iteration_ns(batch) / 1_000))
    return found


def table(found: Iterable[tuple[Case, float, float]]) -> str:
    """The comparison as a Markdown table."""
    lines = [
        "| prefill | cached | decodes | context of each | true ms | fitted ms | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for (new, cached, decodes, context), true_us, fitted_us in found:
        error = f"{100 * (fitted_us / true_us - 1):+.2f} %"
        cells = (new, cached, decodes, context, f"{true_us / 1e3:.3f}", f"{fitted_us / 1e3:.3f}", error)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def measured_virtually(folder: Path) -> CostModel:
    """The fitted model of a measurement on the virtual clock."""
    grid = Grid(batch_sizes=(1, 4, 8, 16), contexts=(128, 1024), token_budget=512)
    _, done = measure(grid, jitter_s=0.0003)
    write_table(folder, done)
    return calibrate([folder], Options()).model


def measured_by_command(folder: Path, port: int) -> CostModel:
    """The fitted model of a measurement by the command line, on the real clock."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.measure.server", "--port", str(port)], stdout=subprocess.PIPE
    )
    sim = [sys.executable, "-m", "sim"]
    sizes = ["--token-budget=512", "--batch-sizes=1,4,8,16", "--contexts=128,1024"]
    url, fitted = f"--url=http://127.0.0.1:{port}/v1", folder / "cost.yaml"
    try:
        assert server.stdout is not None
        server.stdout.readline()
        subprocess.run([*sim, "profile", url, f"--out={folder}", *sizes], check=True)
    finally:
        server.terminate()
        server.wait()
    subprocess.run([*sim, "calibrate", folder, f"--out={fitted}"], check=True)
    return load_cost_model({"file": str(fitted)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--virtual", action="store_true", help="on a virtual clock")
    parser.add_argument("--port", type=int, default=8911)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.virtual:
            model = measured_virtually(folder)
        else:
            model = measured_by_command(folder, arguments.port)
        found = compare(model, Coefficients())
    print(table(found))
    worst = max(abs(100 * (fitted_us / true_us - 1)) for _, true_us, fitted_us in found)
    print(f"largest error {worst:.2f} %, limit {LIMIT_PCT} %")
    if not arguments.virtual:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0 if worst <= LIMIT_PCT else 1


if __name__ == "__main__":
    sys.exit(main())
