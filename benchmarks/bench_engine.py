"""How fast the engine is: policies, loads, the jump against the reference, SimPy's floor, a million requests.

    python benchmarks/bench_engine.py policies|floor|scaling|process|all [--trace FILE]

Every measurement is a process of its own, so that its peak memory is its own. Times are CPU seconds of the
simulation; simulator.wall_s of summary.json counts the same stretch by the wall clock, which on a busy
machine says more about the machine. Without --trace, the Azure conversation hour beside the checkout is
taken, else the shipped sample repeated to as many requests. Ratios in one run compare between machines.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
AZURE = ROOT.parent / "shared/data/traces/AzureLLMInferenceTrace_conv.csv"
SAMPLE = ROOT / "traces/azure_conv_sample.csv"
REQUESTS = 19_366
POLICIES = ("static", "continuous", "prefill_first", "stall_free", "vllm_v1")
LOADS = {"light": 0.25, "as recorded": 1.0, "saturated": 8.0}
COEFFICIENTS = "rtxpro6000-llama-3.1-8b-tp1"
PROFILE = "h100-80gb-llama-3.1-8b-tp1"
"""A shipped model of kind profile: interpolation in measured tables."""


def repeated(trace: Any, requests: int) -> Any:
    """The first `requests` of `trace` played over and over, each time after the last arrival."""
    from sim.core.trace import Trace

    times = -(-requests // len(trace))
    period = int(trace.arrival_ns[-1]) + int(trace.arrival_ns[-1]) // max(len(trace) - 1, 1)
    arrival = np.concatenate([trace.arrival_ns + period * lap for lap in range(times)])[:requests]
    prompt, output = (np.tile(c, times)[:requests] for c in (trace.prompt_tokens, trace.output_tokens))
    return Trace(f"{trace.name} to {requests}", arrival, prompt, output)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """One simulation, in this process."""
    import policies  # noqa: F401
    from sim.core.registry import POLICIES as REGISTERED
    from sim.cost import load_cost_model
    from sim.engine import EngineSettings, simulate
    from sim.trace.load import load_trace

    trace = load_trace(job["trace"], rate_scale=job["rate"])
    if len(trace) != job["requests"]:
        trace = repeated(trace, job["requests"])
    cost = load_cost_model({"file": job["cost"]})
    settings = EngineSettings(num_blocks=30_000, mode=job["mode"], record_iterations=job["rows"])
    started = time.process_time()
    record = simulate(trace, REGISTERED.get(job["policy"])(), cost, settings)
    cpu_s = time.process_time() - started
    return {
        "cpu_s": cpu_s,
        "wall_s": record.wall_s,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rows": len(record.iterations),
        "iterations": record.num_iterations,
        "tokens": record.output_tokens_emitted,
        "policy_calls": record.counters["policy_calls"],
    }


def in_a_process(job: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "one", json.dumps(job)], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def job_of(arguments: argparse.Namespace, **changes: Any) -> dict[str, Any]:
    return {
        "trace": str(arguments.trace),
        "requests": REQUESTS,
        "rate": 1.0,
        "policy": "stall_free",
        "cost": COEFFICIENTS,
        "mode": "fast",
        "rows": True,
        **changes,
    }


def bench_policies(arguments: argparse.Namespace) -> None:
    print("| policy | load | cost model | CPU s | wall s | requests/s | MB | iterations | rows |")
    print("|---|---|---|---|---|---|---|---|---|")
    for cost, loads in ((COEFFICIENTS, LOADS), (PROFILE, {"as recorded": 1.0})):
        kind = "coefficients" if cost == COEFFICIENTS else "profile"
        for load, rate in loads.items():
            for policy in POLICIES:
                done = in_a_process(job_of(arguments, policy=policy, rate=rate, cost=cost))
                print(
                    f"| {policy} | {load} | {kind} | {done['cpu_s']:.2f} | {done['wall_s']:.2f} | "
                    f"{REQUESTS / done['cpu_s']:,.0f} | {done['mb']:.0f} | {done['iterations']:,} | "
                    f"{done['rows']:,} |",
                    flush=True,
                )


def bench_floor(arguments: argparse.Namespace) -> None:
    """Bare SimPy timeouts, as many as the run has events; and the jump against the reference."""
    import simpy

    print("| load | events | bare SimPy, CPU s | fast | x floor | reference | reference / fast |")
    print("|---|---|---|---|---|---|---|")
    for load, rate in LOADS.items():
        fast = in_a_process(job_of(arguments, rate=rate))
        slow = in_a_process(job_of(arguments, rate=rate, mode="reference"))
        events = fast["rows"] + REQUESTS
        env = simpy.Environment()

        def ticks(env: simpy.Environment = env, events: int = events) -> Any:
            for _ in range(events):
                yield env.timeout(1)

        env.process(ticks())
        started = time.process_time()
        env.run()
        floor = time.process_time() - started
        print(
            f"| {load} | {events:,} | {floor:.3f} | {fast['cpu_s']:.2f} | {fast['cpu_s'] / floor:.1f} | "
            f"{slow['cpu_s']:.1f} | {slow['cpu_s'] / fast['cpu_s']:.1f} |",
            flush=True,
        )


def bench_scaling(arguments: argparse.Namespace) -> None:
    print("| requests | output tokens | CPU s | wall s | MB | requests/s |")
    print("|---|---|---|---|---|---|")
    sizes, seconds = (10_000, 100_000, 1_000_000), []
    for requests in sizes:
        done = in_a_process(job_of(arguments, requests=requests, rows=False))
        seconds.append(done["cpu_s"])
        print(
            f"| {requests:,} | {done['tokens']:,} | {done['cpu_s']:.2f} | {done['wall_s']:.2f} | "
            f"{done['mb']:.0f} | {requests / done['cpu_s']:,.0f} |",
            flush=True,
        )
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"\nexponent of CPU time in requests: {exponent:.3f}")


def bench_process(arguments: argparse.Namespace) -> None:
    """A whole `python -m sim run` without plots: start, trace, simulation, metrics, files."""
    print("| policy | wall s of the process | CPU s | MB |")
    print("|---|---|---|---|")
    for policy in POLICIES:
        command = [
            sys.executable, "-m", "sim", "run", "configs/azure_conv.yaml", "--out", f"runs/bench/{policy}",
            "--set", f"trace.path={arguments.trace}", "--set", "trace.format=auto",
            "--set", f"policy.name={policy}", "--set", "output.plots=false",
        ]  # fmt: skip
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"| {policy} | {wall_s:.2f} | {cpu_s:.2f} | {after.ru_maxrss / 1024:.0f} (largest so far) |")


BENCHMARKS = {
    "policies": bench_policies,
    "floor": bench_floor,
    "scaling": bench_scaling,
    "process": bench_process,
}


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
