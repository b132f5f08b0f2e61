"""How fast the engine is: policies and loads, the jump against the reference, a million requests.

    python benchmarks/bench_engine.py policies|reference|scaling|process|all [--trace FILE]

Every measurement is a process of its own, so that its peak memory is its own. `wall s` is what
summary.json calls simulator.wall_s, from the loaded trace to the record; CPU seconds are the same
stretch's, and do not grow when other work shares the machine. The floor is bare SimPy: as many timeouts
of one process as the run has events, timed in the same run. Without --trace, the Azure conversation
hour beside the checkout is taken, else the shipped sample repeated to as many requests.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import simpy

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
AZURE = ROOT.parent / "shared/data/traces/AzureLLMInferenceTrace_conv.csv"
SAMPLE = ROOT / "traces/azure_conv_sample.csv"
REQUESTS = 19_366
POLICIES = ("static", "continuous", "prefill_first", "stall_free", "vllm_v1")
LOADS = {"light": 0.25, "as recorded": 1.0, "saturated": 8.0}
COST = {"coefficients": "rtxpro6000-llama-3.1-8b-tp1", "profile": "h100-80gb-llama-3.1-8b-tp1"}
"""Shipped models: one of each kind."""

Job = dict[str, Any]


def repeated(trace: Any, requests: int) -> Any:
    """The first `requests` of `trace` played over and over, each time after the last arrival."""
    from sim.core.trace import Trace

    times = -(-requests // len(trace))
    period = int(trace.arrival_ns[-1]) + int(trace.arrival_ns[-1]) // max(len(trace) - 1, 1)
    arrival = np.concatenate([trace.arrival_ns + period * lap for lap in range(times)])[:requests]
    prompt, output = (np.tile(c, times)[:requests] for c in (trace.prompt_tokens, trace.output_tokens))
    return Trace(f"{trace.name} to {requests}", arrival, prompt, output)


def measure(job: Job) -> Job:
    """One simulation, in this process."""
    import policies  # noqa: F401
    from sim.core.registry import POLICIES as REGISTERED
    from sim.cost import load_cost_model
    from sim.engine import EngineSettings, simulate
    from sim.trace.load import load_trace

    trace = load_trace(job["trace"], rate_scale=job["rate"])
    if len(trace) != job["requests"]:
        trace = repeated(trace, job["requests"])
    cost = load_cost_model({"file": COST[job["cost"]]})
    settings = EngineSettings(num_blocks=30_000, mode=job["mode"])
    started = time.process_time()
    record = simulate(trace, REGISTERED.get(job["policy"])(), cost, settings)
    cpu_s = time.process_time() - started
    return {
        "cpu_s": cpu_s,
        "wall_s": record.wall_s,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "iterations": record.num_iterations,
        "tokens": record.output_tokens_emitted,
        **record.counters,
    }


def whole_run(job: Job) -> Job:
    """`python -m sim run` without plots, measured from outside: start, trace, simulation, files."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = {"trace.path": job["trace"], "trace.format": "auto", "policy.name": job["policy"]}
        overrides |= {"output.plots": "false", "output.format": job["format"]}
        sets = [part for key, value in overrides.items() for part in ("--set", f"{key}={value}")]
        command = ["-m", "sim", "run", "configs/azure_conv.yaml", "--out", f"{folder}/run", *sets]
        started = time.perf_counter()
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        wall_s = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}


def in_a_process(what: str, job: Job) -> Job:
    command = [sys.executable, __file__, what, json.dumps(job)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def simulated(arguments: argparse.Namespace, **changes: Any) -> Job:
    job = {"trace": str(arguments.trace), "requests": REQUESTS, "rate": 1.0, "policy": "stall_free"}
    return in_a_process("simulation", {**job, "cost": "coefficients", "mode": "fast", **changes})


def bare_event_s(events: int = 300_000) -> float:
    """CPU seconds of a timeout of a SimPy process that does nothing else."""
    env = simpy.Environment()

    def ticks() -> Generator[simpy.Event, None, None]:
        for _ in range(events):
            yield simpy.Timeout(env, 1)

    env.process(ticks())
    started = time.process_time()
    env.run()
    return (time.process_time() - started) / events


def bench_policies(arguments: argparse.Namespace) -> None:
    print("| policy | load | cost model | wall s | CPU s | requests/s | MB | iterations | events | x floor |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for cost in COST:
        for load, rate in LOADS.items():
            for policy in POLICIES:
                done = simulated(arguments, policy=policy, rate=rate, cost=cost)
                floor_s = bare_event_s() * done["events"]
                print(
                    f"| {policy} | {load} | {cost} | {done['wall_s']:.2f} | {done['cpu_s']:.2f} | "
                    f"{REQUESTS / done['cpu_s']:,.0f} | {done['mb']:.0f} | {done['iterations']:,} | "
                    f"{done['events']:,} | {done['cpu_s'] / floor_s:.0f} |",
                    flush=True,
                )


def bench_reference(arguments: argparse.Namespace) -> None:
    print("| policy | load | fast, CPU s | reference, CPU s | reference / fast |\n|---|---|---|---|---|")
    loads = [(policy, "light") for policy in POLICIES]
    for policy, load in [*loads, ("stall_free", "as recorded"), ("stall_free", "saturated")]:
        modes = ("fast", "reference")
        fast, slow = (
            simulated(arguments, policy=policy, rate=LOADS[load], mode=mode)["cpu_s"] for mode in modes
        )
        print(f"| {policy} | {load} | {fast:.2f} | {slow:.1f} | {slow / fast:.1f} |", flush=True)


def bench_scaling(arguments: argparse.Namespace) -> None:
    print("| requests | output tokens | wall s | CPU s | requests/s | MB |\n|---|---|---|---|---|---|")
    sizes, seconds = (10_000, 100_000, 1_000_000), []
    for requests in sizes:
        done = simulated(arguments, requests=requests)
        seconds.append(done["cpu_s"])
        print(
            f"| {requests:,} | {done['tokens']:,} | {done['wall_s']:.2f} | {done['cpu_s']:.2f} | "
            f"{requests / done['cpu_s']:,.0f} | {done['mb']:.0f} |",
            flush=True,
        )
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"\nexponent of CPU time in requests: {exponent:.3f}")


def bench_process(arguments: argparse.Namespace) -> None:
    print("| policy | output.format | wall s of the process | CPU s | MB |\n|---|---|---|---|---|")
    formats = [(policy, "csv") for policy in POLICIES]
    for policy, file_format in [*formats, ("stall_free", "parquet")]:
        job = {"trace": str(arguments.trace), "policy": policy, "format": file_format}
        done = in_a_process("whole", job)
        print(
            f"| {policy} | {file_format} | {done['wall_s']:.2f} | {done['cpu_s']:.2f} | {done['mb']:.0f} |",
            flush=True,
        )


MEASUREMENTS = {"simulation": measure, "whole": whole_run}
BENCHMARKS = {
    "policies": bench_policies,
    "reference": bench_reference,
    "scaling": bench_scaling,
    "process": bench_process,
}


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in MEASUREMENTS:
        print(json.dumps(MEASUREMENTS[sys.argv[1]](json.loads(sys.argv[2]))))
        return
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("benchmark", choices=[*BENCHMARKS, "all"])
    parser.add_argument("--trace", type=Path, default=AZURE if AZURE.is_file() else SAMPLE)
    arguments = parser.parse_args()
    arguments.trace = arguments.trace.resolve()
    for name, bench in BENCHMARKS.items():
        if arguments.benchmark in (name, "all"):
            print(f"\n{name}:\n")
            bench(arguments)


if __name__ == "__main__":
    main()
