"""What each mechanism is worth on measured runs, and how far fitted host times carry to other runs.

    python benchmarks/fidelity.py ablation   both vLLM runs, one mechanism switched at a time
    python benchmarks/fidelity.py runs       mixed host time, fitted on one run and tested on the other
    python benchmarks/fidelity.py closed     the closed-loop points, one mechanism switched at a time
    python benchmarks/fidelity.py host       per-request host time, fitted on some points, tested on the rest
    python benchmarks/fidelity.py memory     points near the end of KV memory, with half of it
    python benchmarks/fidelity.py kv16       the H100 points, as if their KV cache were 16-bit

Needs the public measurements of ../shared/data (or --data DIR). --out writes the table as CSV. `host`
simulates every point once for each value of the grid, which takes minutes; `kv16` needs the extra
aiconfigurator.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sim.api.closed_loop import read_points, validate_closed_loop
from sim.api.validation import validate
from sim.cli import main as command
from sim.cost.catalogue import catalogue_dir

RUNS = {"llama": "rtxpro6000-llama-3.1-8b", "qwen": "rtxpro6000-qwen3-32b-tp2"}
PROFILES = {"llama": "rtxpro6000-llama-3.1-8b-tp1", "qwen": "rtxpro6000-qwen3-32b-tp2"}

COST, CACHE, POLICY, REPLICA = "cost_model.", "kv_cache.", "policy.", "replica."
ABLATIONS: dict[str, dict[str, Any]] = {
    "everything as the run's settings and defaults say": {},
    "no async scheduling": {REPLICA + "async_scheduling": False},
    "no prefix caching": {CACHE + "prefix_caching": False},
    "no correction for unequal contexts (skew: false)": {COST + "skew": False},
    "prefill and decode attention added up (mixed_attention: separate)": {
        COST + "mixed_attention": "separate"
    },
    "ring all-reduce for two ranks at any size": {COST + "all_reduce": "ring"},
    "link of the GPU catalogue instead of run.json's": {COST + "link_gb_s": 64, COST + "link_latency_us": 20},
    "no host time of mixed iterations": {COST + "host_overhead_us": 0},
    "the same host time on every iteration": {COST + "host_overhead_us": 3000},
    "CUDA-graph padding of tokens (graph_sizes: vllm)": {COST + "graph_sizes": "vllm"},
    "cold start of 85 ms": {COST + "cold_start_us": 85_000},
    "front-end delay of 1 ms": {REPLICA + "front_end_delay_s": 0.001},
    "token budget 1,024 instead of 2,048": {POLICY + "token_budget": 1024},
    "token budget 4,096": {POLICY + "token_budget": 4096},
    "max_batch_size 64 instead of 128": {POLICY + "max_batch_size": 64},
    "max_batch_size 256": {POLICY + "max_batch_size": 256},
    "half the KV blocks": {CACHE + "num_blocks": "half"},
    "a tenth of the KV blocks": {CACHE + "num_blocks": "tenth"},
    "shipped coefficients instead of the profile": {"cost": "coefficients"},
}
CLOSED_LOOP: dict[str, dict[str, Any]] = {
    "as shipped": {},
    "no host time": {COST + "host_overhead_us": 0},
    "no host time, no async scheduling": {
        COST + "host_overhead_us": 0,
        REPLICA + "async_scheduling": False,
    },
    "host time also 3 ms of a mixed iteration": {
        COST + "host_overhead_us": {"per_sequence": 20, "mixed": 3000}
    },
    "host time also 10 ms of a mixed iteration": {
        COST + "host_overhead_us": {"per_sequence": 20, "mixed": 10000}
    },
    "front-end delay of 5 ms": {REPLICA + "front_end_delay_s": 0.005},
    "token budget 4,096 instead of 8,192": {POLICY + "token_budget": 4096},
    "KV unlimited": {CACHE + "num_blocks": "unlimited"},
}
SHARES = {"half": 2, "tenth": 10}

MIXED_US = range(0, 6001, 500)
SEQUENCE_US = range(0, 81, 5)


def ablation(data: Path) -> pd.DataFrame:
    """Mean absolute error of both runs over the 15 numbers, one mechanism switched at a time."""
    rows = []
    for name, overrides in ABLATIONS.items():
        row: dict[str, Any] = {"change": name}
        for run in RUNS:
            report = replay(data, run, overrides)
            row[f"{run}_error_pct"] = report["mean_abs_error_pct"]
            for metric in ("ttft_queued_s", "tpot_s", "e2e_s"):
                row[f"{run}_{metric[:-2]}_mean_pct"] = report["metrics"][metric]["mean"]["error_pct"]
        rows.append(row)
        print(f"{name}: " + ", ".join(f"{run} {row[f'{run}_error_pct']:.2f} %" for run in RUNS), flush=True)
    return pd.DataFrame(rows)


def replay(data: Path, run: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The report of one run under its profile."""
    folder = data / "ground_truth" / f"vllm-{RUNS[run]}"
    wanted = dict(overrides)
    shipped = wanted.pop("cost", None) == "coefficients"
    profile = PROFILES[run] if shipped else data / "profiles" / PROFILES[run]
    share = SHARES.get(str(wanted.get(CACHE + "num_blocks")))
    if share is not None:
        whole = validate(folder, profile).report["num_blocks"]
        wanted[CACHE + "num_blocks"] = whole // share
    return validate(folder, profile, wanted).report


def runs(data: Path) -> pd.DataFrame:
    """Errors by mixed host time; the best for one run is what the other is tested with."""
    table = pd.DataFrame(
        [
            {"mixed_us": mixed}
            | {
                run: replay(data, run, {COST + "host_overhead_us": {"mixed": mixed}})["mean_abs_error_pct"]
                for run in RUNS
            }
            for mixed in MIXED_US
        ]
    )
    print(table.round(2).to_string(index=False))
    for fitted, tested in (("qwen", "llama"), ("llama", "qwen")):
        best = table.loc[table[fitted].idxmin()]
        none = table[tested].iloc[0]
        print(
            f"fitted on {fitted}: {best['mixed_us']:.0f} us; on {tested}, held out: "
            f"{best[tested]:.2f} % (without: {none:.2f} %)"
        )
    return table


def closed(data: Path) -> pd.DataFrame:
    """MAPE and bias over the points that did not wait for KV, one mechanism switched at a time."""
    rows = []
    for name, overrides in CLOSED_LOOP.items():
        free = closed_loop(data, overrides).query("not kv_limited")
        row: dict[str, Any] = {"change": name}
        for metric in ("ttft", "tpot"):
            errors = free[f"{metric}_error_pct"]
            row |= {f"{metric}_mape_pct": errors.abs().mean(), f"{metric}_bias_pct": errors.mean()}
        for gpu, part in free.groupby("gpu"):
            row[f"tpot_mape_pct_{gpu}"] = part["tpot_error_pct"].abs().mean()
        rows.append(row)
    table = pd.DataFrame(rows)
    print(table.round(2).to_string(index=False))
    return table


def host(data: Path) -> pd.DataFrame:
    """Errors of every closed-loop point by per-request host time, and held-out errors of several splits."""
    frames = []
    for mixed in (0, 3000):
        for sequence in SEQUENCE_US:
            constants = {"per_sequence": sequence, "mixed": mixed}
            rows = closed_loop(data, {COST + "host_overhead_us": constants}).assign(**constants)
            frames.append(rows[~rows["kv_limited"]])
            print(".", end="", flush=True, file=sys.stderr)
    grid = pd.concat(frames, ignore_index=True)
    h100 = grid["gpu"] == "h100_sxm"
    short = grid["isl"] == 1024
    few = grid["concurrency"] <= 8
    for name, chosen in (("H100", h100), ("1024-token prompts", short), ("concurrency 4 and 8", few)):
        held_out(grid, name, chosen)
    each_machine_held_out(grid)
    return grid


def held_out(grid: pd.DataFrame, name: str, chosen: pd.Series) -> None:
    """Fit TPOT on one side and test on the other, both ways, with one constant and with two."""
    for constants in (["per_sequence"], ["per_sequence", "mixed"]):
        usable = grid if "mixed" in constants else grid[grid["mixed"] == 0]
        here = chosen[usable.index]
        tested = []
        for fitted, label in ((here, name), (~here, f"all but {name}")):
            best = mape(usable[fitted], constants, "tpot").idxmin()
            values = [best] if len(constants) == 1 else list(best)
            held = usable[~fitted & (usable[constants] == values).all(axis=1)]
            none = usable[~fitted & (usable[constants] == 0).all(axis=1)]
            tested.append(held)
            shown = ", ".join(f"{key} {us} us" for key, us in zip(constants, values, strict=True))
            print(f"fitted on {label}: {shown}; on the rest: {errors_of(held)} (without: {errors_of(none)})")
        print(f"    every point by what was fitted on the other side: {errors_of(pd.concat(tested))}")


def each_machine_held_out(grid: pd.DataFrame) -> None:
    """Every (GPU, tensor_parallel) by the per-request time fitted on the TPOT of all others."""
    usable = grid[grid["mixed"] == 0]
    machine = usable["gpu"] + " TP " + usable["tensor_parallel"].astype(str)
    tested = []
    for name in sorted(machine.unique()):
        best = mape(usable[machine != name], ["per_sequence"], "tpot").idxmin()
        held = usable[(machine == name) & (usable["per_sequence"] == best)]
        tested.append(held)
        print(f"fitted on all but {name}: per_sequence {best} us; on it: {errors_of(held)}")
    print(f"    every point by what was fitted on the other machines: {errors_of(pd.concat(tested))}")


def errors_of(rows: pd.DataFrame) -> str:
    return ", ".join(f"{m.upper()} {rows[f'{m}_error_pct'].abs().mean():.2f} %" for m in ("tpot", "ttft"))


def mape(rows: pd.DataFrame, constants: list[str], metric: str) -> pd.Series:
    """Mean absolute error in percent by value of the constants."""
    return rows[f"{metric}_error_pct"].abs().groupby([rows[name] for name in constants]).mean()


def closed_loop(data: Path, overrides: Mapping[str, Any]) -> pd.DataFrame:
    return validate_closed_loop(points_file(data), None, overrides).rows


def points_file(data: Path) -> Path:
    return data / "ground_truth" / "inferencex" / "closed_loop.csv"


def memory(data: Path) -> pd.DataFrame:
    """The points near the end of KV memory, with all of the estimated capacity and with half of it."""
    points = read_points(points_file(data))
    demand = points["concurrency"] * (points["in_len_max"] + points["out_len_max"])
    tight = points[demand > 0.5 * points["kv_capacity_tokens_est"]]
    rows = []
    for share in (1, 2):
        for _, point in tight.iterrows():
            single = pd.DataFrame([point])
            blocks = int(point["kv_capacity_tokens_est"]) // 16 // share
            result = simulate_points(single, {CACHE + "num_blocks": blocks})
            rows.append(result.iloc[0].to_dict() | {"kv_share": 1 / share})
    table = pd.DataFrame(rows)
    print(table.round(1).to_string(index=False))
    return table


def kv16(data: Path) -> pd.DataFrame:
    """The H100 points with half the KV capacity and cost models of a 16-bit KV cache."""
    points = read_points(points_file(data)).query("system == 'h100_sxm'")
    halved = points.assign(kv_capacity_tokens_est=points["kv_capacity_tokens_est"] / 2)
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks, part in halved.groupby("tp_size"):
            cost = sampled_kv16(Path(folder), int(float(str(ranks))))
            for sequence in (0, 20):
                host_us = {COST + "host_overhead_us": {"per_sequence": sequence}}
                frames.append(simulate_points(part, host_us, cost).assign(per_sequence=sequence))
    table = pd.concat(frames, ignore_index=True)
    for sequence, rows in table.groupby("per_sequence"):
        free = rows[~rows["kv_limited"]]
        errors = {metric: free[f"{metric}_error_pct"].abs().mean() for metric in ("ttft", "tpot")}
        print(f"per_sequence {sequence} us: TTFT {errors['ttft']:.2f} %, TPOT {errors['tpot']:.2f} %")
    tight = table.query("tensor_parallel == 2 and isl == 8192 and concurrency >= 32")
    print(tight.round(1).to_string(index=False))
    return table


def sampled_kv16(folder: Path, ranks: int) -> Path:
    """A cost model of the FP8 model whose KV cache is not quantised, sampled from operator tables."""
    shape = (catalogue_dir() / "models" / "llama-3.3-70b-fp8.yaml").read_text(encoding="utf-8")
    model, out = folder / "model.yaml", folder / f"tp{ranks}.yaml"
    model.write_text(shape.replace("kv_bytes: 1", "kv_bytes: 2"), encoding="utf-8")
    machine = ["--model", str(model), "--gpu", "h100-80gb", "--tensor-parallel", str(ranks)]
    if command(["calibrate", "aiconfigurator", *machine, "--out", str(out)]) != 0:
        raise SystemExit("calibrate failed")
    return out


def simulate_points(
    points: pd.DataFrame, overrides: Mapping[str, Any], cost: Path | None = None
) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.csv"
        points.to_csv(path, index=False)
        return validate_closed_loop(path, cost, overrides).rows


PARTS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "ablation": ablation,
    "runs": runs,
    "closed": closed,
    "host": host,
    "memory": memory,
    "kv16": kv16,
}


def main(arguments: Iterable[str] | None = None) -> int:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, default=beside, metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there as CSV")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    if not chosen.data.is_dir():
        print(f"no measurements at {chosen.data}; --data says where they are", file=sys.stderr)
        return 2
    table = PARTS[chosen.part](chosen.data)
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(chosen.out, index=False, float_format="%.4f")
    return 0


if __name__ == "__main__":
    sys.exit(main())
