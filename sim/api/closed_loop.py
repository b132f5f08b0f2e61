"""Closed-loop validation: published benchmark points at a fixed concurrency, each simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.api.inputs import Inputs, build_cost
from sim.api.load import load_config
from sim.api.measured import read_table
from sim.api.simulation import measure_with
from sim.core.errors import TraceError
from sim.core.rng import stream
from sim.core.trace import Trace
from sim.cost.names import gpu_called, model_called
from sim.report.fidelity import percentage_errors
from sim.report.jsonfile import write_json

NEEDED_COLUMNS = (
    "id", "model_actual", "system", "tp_size", "in_len_min", "in_len_max", "out_len_min", "out_len_max",
    "concurrency", "num_prompts", "max_num_batched_tokens", "max_num_seqs",
    "silicon_ttft_ms", "silicon_tpot_ms",
)  # fmt: skip
NUMBERS = NEEDED_COLUMNS[3:]
BLOCK_SIZE = 16
GROUPS = {
    "gpu": ["gpu"],
    "tensor_parallel": ["tensor_parallel"],
    "length_mix": ["isl", "osl"],
    "concurrency": ["concurrency"],
}


@dataclass(frozen=True)
class ClosedLoop:
    """`rows`: one measured point each, with what was simulated; `report`: errors over them."""

    rows: pd.DataFrame
    report: dict[str, Any]

    def save(self, directory: str | Path, *, plots: bool = True) -> list[Path]:
        """Write validation.json, closed_loop.csv and, unless told not to, the plot; the paths."""
        folder = Path(directory)
        written = [write_json(self.report, folder / "validation.json"), folder / "closed_loop.csv"]
        self.rows.to_csv(written[1], index=False, float_format="%.4f")
        if plots:
            from sim.report.plots.fidelity import draw_closed_loop
            from sim.report.plots.figure import save

            columns = {str(name): column.to_numpy() for name, column in self.rows.items()}
            written.append(save(draw_closed_loop(columns), folder / "closed_loop.png"))
        return written


def validate_closed_loop(
    path: str | Path,
    cost: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    seeds: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ClosedLoop:
    """Simulate every point of the CSV file `path` (columns as InferenceX publishes them).

    All `concurrency` requests are sent at once and each completion releases the next; lengths are
    uniform integers, drawn anew for each of `seeds`. Without `cost` each row takes the shipped cost
    model of its GPU, model and tensor_parallel. Raises UserError for what is wrong with the file.
    """
    points = read_points(Path(path))
    rows = []
    for number, (_, point) in enumerate(points.iterrows()):
        ttft_ms, tpot_ms = np.mean([_simulate(point, cost, overrides, seed) for seed in range(seeds)], axis=0)
        rows.append(_row(point, ttft_ms, tpot_ms))
        if progress is not None:
            progress(number + 1, len(points))
    frame = pd.DataFrame(rows)
    return ClosedLoop(frame, _report(frame, Path(path).name, seeds))


def read_points(path: Path) -> pd.DataFrame:
    """The points of a closed-loop file; TraceError names the row and column that is wrong or missing."""
    points = read_table(path, NEEDED_COLUMNS, NUMBERS)
    for column in NUMBERS:
        if (points[column] <= 0).any():
            row = int(np.flatnonzero(points[column] <= 0)[0])
            raise TraceError(f"{path}:{row + 2}: {column} {points[column].iloc[row]} must be above 0")
    return points


def _simulate(
    point: pd.Series[Any], cost: str | Path | None, overrides: Mapping[str, Any] | None, seed: int
) -> tuple[float, float]:
    """Mean TTFT and mean TPOT over the requests, in ms."""
    capacity = point.get("kv_capacity_tokens_est")
    model, gpu = model_called(str(point["model_actual"])), gpu_called(str(point["system"]).split("_")[0])
    parallel = int(point["tp_size"])
    shipped = f"configs/cost/{gpu}-{model}-tp{parallel}.yaml"
    values = {
        "name": "closed-loop",
        "trace": {"path": "closed-loop", "closed_loop": {"concurrency": int(point["concurrency"])}},
        "replica": {
            "model": model,
            "gpu": gpu,
            "tensor_parallel": parallel,
            "max_model_len": _integer(point.get("max_model_len")),
            "async_scheduling": point.get("async_scheduling") == "on",
        },
        "cost_model": {"file": shipped if cost is None else str(cost)},
        "kv_cache": {"num_blocks": "unlimited" if pd.isna(capacity) else int(capacity) // BLOCK_SIZE},
        "policy": {
            "name": "vllm_v1",
            "token_budget": int(point["max_num_batched_tokens"]),
            "max_batch_size": int(point["max_num_seqs"]),
        },
        "engine": {"record_iterations": False},
    }
    config = load_config(values, overrides)
    blocks = config.kv_cache.num_blocks
    inputs = Inputs(_trace(point, seed), build_cost(config), blocks if isinstance(blocks, int) else None)
    _, _, summary = measure_with(config, inputs)
    if summary["num_finished"] < len(inputs.trace):
        raise TraceError(
            f"{point['id']}: {summary['num_rejected']} requests fit neither the KV nor the model"
        )
    ttft_s, tpot_s = (summary[metric]["mean"] for metric in ("ttft_s", "tpot_s"))
    if tpot_s is None:
        raise TraceError(f"{point['id']}: out_len_max 1: one token has no TPOT")
    return ttft_s * 1e3, tpot_s * 1e3


def _trace(point: pd.Series[Any], seed: int) -> Trace:
    """Uniform lengths; a closed loop ignores arrival times."""
    rng = stream(seed, "closed_loop")
    count = int(point["num_prompts"])
    prompts = rng.integers(int(point["in_len_min"]), int(point["in_len_max"]) + 1, count)
    outputs = rng.integers(int(point["out_len_min"]), int(point["out_len_max"]) + 1, count)
    return Trace("closed loop", np.zeros(count, dtype=np.int64), prompts, outputs)


def _row(point: pd.Series[Any], ttft_ms: float, tpot_ms: float) -> dict[str, Any]:
    return {
        "gpu": str(point["system"]),
        "tensor_parallel": int(point["tp_size"]),
        "isl": int(point.get("isl", point["in_len_max"])),
        "osl": int(point.get("osl", point["out_len_max"])),
        "concurrency": int(point["concurrency"]),
        "kv_limited": "kv_limited" in str(point.get("flags", "")),
        "measured_ttft_ms": float(point["silicon_ttft_ms"]),
        "simulated_ttft_ms": ttft_ms,
        "ttft_error_pct": 100 * (ttft_ms / point["silicon_ttft_ms"] - 1),
        "measured_tpot_ms": float(point["silicon_tpot_ms"]),
        "simulated_tpot_ms": tpot_ms,
        "tpot_error_pct": 100 * (tpot_ms / point["silicon_tpot_ms"] - 1),
    }


def _report(frame: pd.DataFrame, name: str, seeds: int) -> dict[str, Any]:
    free = frame[~frame["kv_limited"]]
    groups = {
        title: {
            " x ".join(str(part) for part in key): _errors(part_of)
            for key, part_of in free.groupby(columns, sort=True)
        }
        for title, columns in GROUPS.items()
    }
    return {
        "source": name,
        "seeds": seeds,
        "points": len(frame),
        "not_kv_limited": _errors(free),
        "all": _errors(frame),
        "by": groups,
        "rows": frame.to_dict(orient="records"),
    }


def _errors(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        metric: percentage_errors(
            frame[f"measured_{metric}_ms"].to_numpy(), frame[f"simulated_{metric}_ms"].to_numpy()
        )
        for metric in ("ttft", "tpot")
    }


def _integer(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)
