"""validate: replay a measured run under the engine's own settings, and put both side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.api.inputs import Inputs, build_cost, resolve_num_blocks
from sim.api.load import load_config
from sim.api.measured import MeasuredRun, read_measured
from sim.api.settings import Progress
from sim.api.simulation import measure_with
from sim.config import Config
from sim.core.errors import TraceError
from sim.core.record import FINISHED, RunRecord
from sim.core.units import column_to_seconds
from sim.cost.names import gpu_called, model_called
from sim.report import fidelity
from sim.report.jsonfile import write_json


@dataclass(frozen=True)
class Validation:
    """A measured run and its simulation. `report` is the content of validation.json."""

    measured: MeasuredRun
    report: dict[str, Any]
    measured_latencies: dict[str, NDArray[np.float64]]
    simulated_latencies: dict[str, NDArray[np.float64]]
    timeline: dict[str, NDArray[np.float64]] | None
    """Times of timeseries.csv with running and waiting, measured and simulated; None without it."""

    def save(self, directory: str | Path, *, plots: bool = True) -> list[Path]:
        """Write validation.json and, unless told not to, the plots; the paths."""
        folder = Path(directory)
        written = [write_json(self.report, folder / "validation.json")]
        if plots:
            from sim.report.plots.fidelity import draw_distributions, draw_load
            from sim.report.plots.figure import save

            figure = draw_distributions(self.measured_latencies, self.simulated_latencies)
            written.append(save(figure, folder / "distributions.png"))
            if self.timeline is not None:
                written.append(save(draw_load(self.timeline), folder / "load.png"))
        return written


def validate(
    run_dir: str | Path,
    cost: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
) -> Validation:
    """Simulate the measured run in `run_dir` with the cost model file or profile folder `cost`.

    The engine's settings come from run.json; `overrides` are dotted config keys laid over them.
    Raises UserError for what is wrong with the folder, the cost model or an override.
    """
    measured = read_measured(run_dir)
    config = replay_config(measured, cost, overrides)
    inputs = Inputs(measured.trace(), build_cost(config), resolve_num_blocks(config))
    record, resolved, summary = measure_with(config, inputs, progress=progress)
    if not (record.status == FINISHED).all():
        reasons = "; ".join(sorted(set(record.reasons.values()))[:3])
        raise TraceError(f"{run_dir}: the simulation rejected requests that were served: {reasons}")
    real, ours = _measured_latencies(measured), _simulated_latencies(measured, record)
    table = fidelity.error_table(real, ours)
    report = {
        "run": measured.folder.name,
        "metrics": table,
        "mean_abs_error_pct": fidelity.mean_abs_error_pct(table),
        "per_request": fidelity.per_request_errors(real, ours),
        **_whole_run(measured, record),
        "num_requests": len(measured.requests),
        "num_preemptions": summary["num_preemptions"],
        "prefix_cache": summary["prefix_cache"],
        "num_blocks": record.num_blocks,
        "notices": record.notices,
        "provenance": {"measured": measured.settings, **summary["provenance"], "config": resolved},
    }
    timeline = _timeline(measured, record)
    if timeline is not None:
        report["timeline"] = _timeline_errors(timeline)
    return Validation(measured, report, real, ours, timeline)


def replay_config(
    measured: MeasuredRun, cost: str | Path, overrides: Mapping[str, Any] | None = None
) -> Config:
    """The config that replays `measured`: vllm_v1 with the engine's own limits."""
    said = measured.settings
    values = {
        "name": measured.folder.name,
        "trace": {"path": str(measured.folder / "requests.csv")},
        "replica": {
            "model": model_called(str(said["model"])),
            "gpu": None if said.get("gpu") is None else gpu_called(str(said["gpu"])),
            "tensor_parallel": said.get("tensor_parallel_size") or 1,
            "max_model_len": said.get("max_model_len"),
            "async_scheduling": measured.async_scheduling,
        },
        "cost_model": _cost_section(Path(cost), said),
        "kv_cache": {
            "block_size": measured.block_size,
            "num_blocks": _usable_blocks(said.get("num_gpu_blocks")),
            "gpu_memory_utilization": said.get("gpu_memory_utilization") or 0.9,
            "prefix_caching": bool(said.get("enable_prefix_caching")) and measured.prefix_hashes is not None,
        },
        "policy": {
            "name": "vllm_v1",
            "token_budget": said["max_num_batched_tokens"],
            "max_batch_size": said["max_num_seqs"],
        },
        # Every boundary between iterations is needed: requests are taken in there.
        "engine": {"mode": "reference"},
    }
    return load_config(values, overrides)


def _usable_blocks(num_gpu_blocks: Any) -> Any:
    """Blocks that requests can have of those vLLM reports: block 0 stands for no block at all.

    Source: vllm/v1/core/block_pool.py, null_block.
    """
    if num_gpu_blocks is None:
        return "auto"
    return num_gpu_blocks - 1 if isinstance(num_gpu_blocks, int) else num_gpu_blocks


def _cost_section(cost: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    if not cost.is_dir():
        return {"file": str(cost)}
    section: dict[str, Any] = {"kind": "profile", "path": str(cost)}
    link = {"link_gb_s": said.get("link_bandwidth_gb_s"), "link_latency_us": said.get("link_latency_us")}
    return section | {key: value for key, value in link.items() if value is not None}


def _measured_latencies(measured: MeasuredRun) -> dict[str, NDArray[np.float64]]:
    return fidelity.latencies(
        measured.seconds("arrival_s"),
        measured.seconds("queued_s"),
        measured.seconds("first_token_s"),
        measured.seconds("last_token_s"),
        measured.tokens("output_tokens"),
    )


def _simulated_latencies(measured: MeasuredRun, record: RunRecord) -> dict[str, NDArray[np.float64]]:
    arrival = column_to_seconds(record.arrival_ns)
    return fidelity.latencies(
        arrival,
        _taken_in(record),
        column_to_seconds(record.first_token_ns),
        column_to_seconds(record.finish_ns),
        measured.tokens("output_tokens"),
    )


def _taken_in(record: RunRecord) -> NDArray[np.float64]:
    start, duration = record.iterations[:, 0] / 1e9, record.iterations[:, 1] / 1e9
    return fidelity.boundary_at_or_after(column_to_seconds(record.arrival_ns), start, start + duration)


def _whole_run(measured: MeasuredRun, record: RunRecord) -> dict[str, Any]:
    """Makespan and output rate of both."""
    tokens = int(measured.tokens("output_tokens").sum())
    real = float(measured.seconds("last_token_s").max() - measured.seconds("arrival_s").min())
    ours = float(record.finish_ns.max() - record.arrival_ns.min()) / 1e9
    return {
        "makespan_s": fidelity.compared(real, ours),
        "output_tokens_per_s": fidelity.compared(tokens / real, tokens / ours),
    }


def _timeline(measured: MeasuredRun, record: RunRecord) -> dict[str, NDArray[np.float64]] | None:
    """Running and waiting at the times of timeseries.csv."""
    series = measured.timeseries
    if series is None or not {"t", "running", "waiting"} <= set(series.columns):
        return None
    at = series["t"].to_numpy(dtype=np.float64)
    finish = column_to_seconds(record.finish_ns)
    # An engine counts a request as waiting from when it takes it in, not from its arrival.
    present = fidelity.in_system(at, _taken_in(record), finish)
    running = fidelity.in_system(at, column_to_seconds(record.first_scheduled_ns), finish)
    return {
        "t": at,
        "measured_running": series["running"].to_numpy(dtype=np.float64),
        "measured_waiting": series["waiting"].to_numpy(dtype=np.float64),
        "simulated_running": running.astype(np.float64),
        "simulated_waiting": (present - running).astype(np.float64),
    }


def _timeline_errors(timeline: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Mean absolute difference, in requests, over the samples."""
    return {
        f"mean_abs_difference_{name}": float(
            np.abs(timeline[f"simulated_{name}"] - timeline[f"measured_{name}"]).mean()
        )
        for name in ("running", "waiting")
    }
