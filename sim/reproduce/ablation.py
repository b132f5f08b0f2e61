"""The ablation of Sarathi-Serve: hybrid batches alone, chunked prefills alone, and both together.

Hybrid only is stall_free with a budget as long as the context, chunked only alternates chunks and
decodes. Both budgets are run: the paper's table names 1024, the artifact's script runs 512.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sim.api.inputs import build_trace
from sim.api.result import Result
from sim.config import Config
from sim.report.statistics import interval, paired
from sim.reproduce.catalogue import REPRODUCTIONS, Options
from sim.reproduce.configs import OnRun, paired_runs, reproduction_config
from sim.reproduce.outcome import Finding, Outcome, single

if TYPE_CHECKING:
    import pandas as pd

WORKLOADS = {"openchat": "openchat_sharegpt4", "arxiv": "arxiv_summarization"}
"""Config ablation_<key>.yaml to the paper's name."""
PAPER = {
    ("openchat", "hybrid only"): (0.53, 0.68),
    ("openchat", "chunked only"): (1.04, 0.17),
    ("openchat", "both"): (0.76, 0.14),
    ("arxiv", "hybrid only"): (3.78, 1.38),
    ("arxiv", "chunked only"): (5.38, 0.20),
    ("arxiv", "both"): (3.90, 0.17),
}
"""Workload and variant to P50 TTFT and P99 TBT, in seconds."""
METRICS = (("ttft_p50_s", "P50 TTFT"), ("tbt_p99_s", "P99 TBT"))
RATE_SHARES = (0.4, 0.55, 0.7, 0.85, 1.0)
"""Arrival rates of the sensitivity runs, over the script's."""
SENSITIVITY_SEEDS = 8
QUICK = {"trace.synthetic.num_requests": 48, "compare.seeds": 3}
QUICK_SHARES = (0.5, 1.0)


def run(options: Options) -> Outcome:
    """Both workloads at the script's rates over all seeds, then at lower rates over fewer."""
    import pandas as pd

    from sim.reproduce.figures.ablation_points import ablation_points
    from sim.reproduce.figures.ablation_rates import ablation_rates

    tables, rates, runs, notes = [], [], [], []
    for workload in WORKLOADS:
        config = reproduction_config(f"ablation_{workload}", QUICK if options.quick else None)
        for seed, row, result in _rows(config, workload, options.on_run):
            tables.append(row)
            if seed == config.seed and workload == "arxiv":
                runs.append(result)
        rates += _at_lower_rates(config, workload, options)
        notes.append(_lengths_note(config, workload))
    results, sensitivity = pd.DataFrame(tables), pd.DataFrame(rates)
    return Outcome(
        name="ablation",
        title=REPRODUCTIONS["ablation"],
        source="Yi-34B on two A100, 128 requests, Poisson at 1 (openchat) and 0.5 (arxiv) requests/s",
        findings=[*_levels(results), *_ratios(results)],
        tables={"ablation": results, "rates": sensitivity},
        figures={
            "ablation_points": ablation_points(results, PAPER, WORKLOADS),
            "ablation_rates": ablation_rates(sensitivity, PAPER, WORKLOADS),
        },
        runs=[result for result in runs if "512" not in result.name],
        notes=[*notes, "run folders and their plots: arxiv_summarization, first seed, budget 1024"],
    )


def variant_of(label: str) -> tuple[str, str | None]:
    """`both 1024` is the variant `both` at budget 1024; `hybrid only` has no budget."""
    variant, _, budget = label.rpartition(" ")
    return (variant, budget) if budget.isdigit() else (label, None)


def _rows(
    config: Config, workload: str, on_run: OnRun | None
) -> Iterator[tuple[int, dict[str, object], Result]]:
    for contender, result in paired_runs(config, on_run):
        variant, budget = variant_of(contender.label)
        row = {
            "workload": workload, "policy": contender.label, "variant": variant, "budget": budget,
            "seed": contender.seed,
            "ttft_p50_s": result.summary["ttft_s"]["p50"], "tbt_p99_s": result.summary["tbt_s"]["p99"],
            "ttft_p99_s": result.summary["ttft_s"]["p99"], "tbt_p50_s": result.summary["tbt_s"]["p50"],
            "makespan_s": result.summary["makespan_s"], "gpu_busy": result.summary["gpu_busy"],
        }  # fmt: skip
        yield contender.seed, row, result


def _at_lower_rates(config: Config, workload: str, options: Options) -> list[dict[str, object]]:
    """The same requests with their arrivals stretched; rate_scale keeps the draws common."""
    seeds = min(config.compare.seeds, SENSITIVITY_SEEDS)
    rows = []
    for share in QUICK_SHARES if options.quick else RATE_SHARES:
        trace = config.trace.updated(rate_scale=share)
        slower = config.updated(trace=trace, compare=config.compare.updated(seeds=seeds))
        rate = share * config.trace.synthetic["arrivals"]["rate_per_s"] if config.trace.synthetic else share
        rows += [{"rate_per_s": rate, **row} for _, row, _ in _rows(slower, workload, options.on_run)]
    return rows


def _levels(results: pd.DataFrame) -> list[Finding]:
    findings = []
    for (workload, policy), group in results.groupby(["workload", "policy"], sort=False):
        published = PAPER[str(workload), variant_of(str(policy))[0]]
        for (key, what), paper in zip(METRICS, published, strict=True):
            name = f"{WORKLOADS[str(workload)]}, {policy}: {what}"
            findings.append(Finding(name, f"{paper:.2f} s", interval(group[key].to_numpy()), "time"))
    return findings


def _ratios(results: pd.DataFrame) -> list[Finding]:
    """What each half lacks against both: hybrid only in TBT, chunked only in TTFT."""
    findings = []
    for workload, paper_name in WORKLOADS.items():
        table = results[results["workload"] == workload].set_index(["policy", "seed"])
        for budget in ("1024", "512"):
            for half, (key, what), place in (
                ("hybrid only", METRICS[1], 1),
                ("chunked only", METRICS[0], 0),
            ):
                one = half if half == "hybrid only" else f"{half} {budget}"
                ratio = PAPER[workload, half][place] / PAPER[workload, "both"][place]
                both = table.loc[f"both {budget}"][key].to_numpy()
                ours = paired(table.loc[one][key].to_numpy(), both).ratio
                name = f"{paper_name}: {what}, {one} over both {budget}"
                findings.append(Finding(name, f"{ratio:.2f} x", ours or single(float("nan")), "times"))
    return findings


def _lengths_note(config: Config, workload: str) -> str:
    """What the generated lengths are like, pooled over the seeds, as the paper lists them."""
    traces = [
        build_trace(config.updated(seed=seed))
        for seed in range(config.seed, config.seed + config.compare.seeds)
    ]
    told = []
    for what in ("prompt_tokens", "output_tokens"):
        lengths = np.concatenate([getattr(trace, what) for trace in traces])
        told.append("/".join(f"{value:,.0f}" for value in (*np.percentile(lengths, (50, 90)), lengths.std())))
    return f"{WORKLOADS[workload]} as generated (median/P90/std): prompts {told[0]}, outputs {told[1]}"
