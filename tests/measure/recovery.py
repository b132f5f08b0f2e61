"""Measure the test server on the real clock, calibrate, and tabulate the fitted times against the true.

    python -m tests.measure.recovery

starts the server in a process of its own, runs `sim profile` and `sim calibrate` as a user would, and
holds the cost model file against the server's own coefficients on iterations that were not measured.
Exit code 1 if any is off by more than 3 %. Takes about a minute. The same is tested on a virtual
clock in test_recovery.py, where no other process can disturb it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from sim.core.batch import Batch, Chunk
from sim.core.protocols import CostModel
from sim.cost import load_cost_model
from tests.measure.engine import Coefficients

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8911)
    port = parser.parse_args().port
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.measure.server", "--port", str(port)], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        server.stdout.readline()
        with tempfile.TemporaryDirectory() as folder:
            measured, fitted = f"{folder}/measured", f"{folder}/cost.yaml"
            sim = [sys.executable, "-m", "sim"]
            sizes = ["--token-budget=512", "--batch-sizes=1,4,8,16", "--contexts=128,1024"]
            url = f"--url=http://127.0.0.1:{port}/v1"
            subprocess.run([*sim, "profile", url, "--out", measured, *sizes], check=True)
            subprocess.run([*sim, "calibrate", measured, "--out", fitted], check=True)
            found = compare(load_cost_model({"file": fitted}), Coefficients())
    finally:
        server.terminate()
        server.wait()
    print(table(found))
    worst = max(abs(100 * (fitted_us / true_us - 1)) for _, true_us, fitted_us in found)
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    print(f"largest error {worst:.2f} %, limit {LIMIT_PCT} % ({load}; a busy machine disturbs both ends)")
    return 0 if worst <= LIMIT_PCT else 1


if __name__ == "__main__":
    sys.exit(main())
