"""Speed of cost models, and how far a roofline carries to GPUs it was not fitted to.

    python benchmarks/bench_cost.py speed [PROFILE_DIR ...]
    python benchmarks/bench_cost.py transfer

`speed` times one call of each kind of batch, a vectorised run, and loading. `transfer` takes the
shipped cost models as measurements, fits the roofline's efficiencies with one GPU left out at a time,
and prints the errors on that GPU; then the efficiencies fitted to all, which are the defaults.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim.core.batch import Batch, Chunk
from sim.cost import load_cost_model, load_gpu, load_model
from sim.cost.calibration.efficiency import Machine, fit_efficiency
from sim.cost.calibration.rows import KINDS, MeasuredRow, batch_of
from sim.cost.catalogue import catalogue_dir
from sim.cost.fields import read_yaml
from sim.cost.roofline import Roofline, RooflineModel

SPREAD = Batch(96, 96 * 1200, 4000, 300)
BATCHES = {
    "decode-only": SPREAD,
    "one chunk": SPREAD._replace(chunks=(Chunk(700, 300),)),
    "two chunks": SPREAD._replace(chunks=(Chunk(700, 300), Chunk(900, 0))),
    "prefill only": Batch(chunks=(Chunk(700, 300),)),
}
RUN = 1000
SPECS: dict[str, dict[str, Any]] = {
    "coefficients": {"file": "rtxpro6000-llama-3.1-8b-tp1"},
    "profile, stored tables": {"file": "h100-80gb-llama-3.1-8b-tp1"},
    "roofline": {"kind": "roofline", "model": "llama-3.1-8b", "gpu": "h100-80gb"},
}


def speed(folders: Iterable[Path]) -> None:
    """Microseconds a call, at best of several repeats, since other work only ever adds."""
    specs = SPECS | {
        f"profile, {folder.name}": {"kind": "profile", "path": str(folder)} for folder in folders
    }
    print(f"{'model':34}" + "".join(f"{name:>14}" for name in (*BATCHES, f"run of {RUN}", "load")))
    for name, spec in specs.items():
        model = load_cost_model(spec)
        calls = [best_us(partial(model.iteration_ns, batch)) for batch in BATCHES.values()]
        calls.append(best_us(partial(model.decode_run_ns, SPREAD, RUN), number=50))
        calls.append(best_us(partial(load_cost_model, spec), number=1))
        print(f"{name:34}" + "".join(f"{call:>11.2f} us" for call in calls))


def best_us(call: Callable[[], object], number: int = 5000) -> float:
    """Best mean of `number` calls over several repeats."""
    repeats = 3 if number == 1 else 15
    return min(timeit.repeat(call, number=number, repeat=repeats)) / number * 1e6


def transfer() -> None:
    """Median errors on each GPU of efficiencies fitted to all others."""
    machines = shipped_machines()
    gpus = sorted({machine[1].name for machine in machines})
    print("median errors in percent")
    print(f"{'GPU left out':18}{'model':22}" + "".join(f"{kind:>10}" for kind in KINDS))
    medians = []
    for left_out in gpus:
        efficiency = fit_efficiency([machine for machine in machines if machine[1].name != left_out])
        for shape, gpu, parallel, rows in machines:
            if gpu.name != left_out:
                continue
            model = RooflineModel(Roofline(shape, gpu, parallel, efficiency))
            by_kind = [median_error(model, rows, kind) for kind in KINDS]
            medians += by_kind
            print(f"{left_out:18}{shape.name + f' tp{parallel}':22}" + "".join(f"{e:10.1f}" for e in by_kind))
    print(f"median over GPUs, models and kinds: {np.median(medians):.1f} %; mean {np.mean(medians):.1f} %")
    print(f"fitted to all: {fit_efficiency(machines)}")


def median_error(model: RooflineModel, rows: Iterable[MeasuredRow], kind: str) -> float:
    """Of the rows of one kind, in percent."""
    errors = [abs(model.iteration_ns(r.batch) / 1000 / r.time_us - 1) for r in rows if r.kind == kind]
    return 100 * float(np.median(errors))


def shipped_machines() -> list[Machine]:
    """Every shipped model that was measured over prefill, decode and both, on a grid of batches."""
    machines: list[Machine] = []
    for path in sorted((catalogue_dir() / "cost").glob("*.yaml")):
        content = read_yaml(path)
        if "mixed" not in content["errors"]["held_out"] or content["errors"]["held_out"]["mixed"]["rows"] < 3:
            continue
        model: Any = load_cost_model({"file": str(path), "host_overhead_us": 0})
        hardware = (load_model(content["model"]), load_gpu(content["gpu"]), content["tensor_parallel"])
        batches = [batch for batch in grid() if not model.outside(batch)]
        rows = [MeasuredRow(batch, model.iteration_ns(batch) / 1000, path.stem) for batch in batches]
        machines.append((*hardware, rows))
    return machines


def grid() -> list[Batch]:
    """Batches of everyday sizes."""
    decodes = [batch_of(n, n * c) for n in (1, 4, 16, 64, 128, 256) for c in (256, 1024, 4096, 8192)]
    prefills = [batch_of(0, 0, 1, t, p) for t in (64, 256, 512, 1024, 2048) for p in (0, 1024, 8192)]
    mixed = [
        batch_of(n, n * c, 1, t, 0)
        for n in (4, 16, 64, 128)
        for c in (256, 1024, 4096)
        for t in (64, 256, 512, 1024, 1792)
    ]
    return decodes + prefills + mixed


if __name__ == "__main__":
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("what", choices=("speed", "transfer"))
    parser.add_argument("folders", metavar="PROFILE_DIR", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "speed":
        speed(arguments.folders)
    else:
        transfer()
