"""Generation stall (Sarathi-Serve, Figure 1a): what decodes go through while prompts are processed.

128 long prompts wait from the start. Under prefill_first every prompt that finds memory stops all
decodes until it is done; under stall_free with a budget of 1536 tokens none does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.api.result import Result
from sim.report.statistics import interval, paired
from sim.reproduce.catalogue import REPRODUCTIONS, Options
from sim.reproduce.configs import paired_runs, reproduction_config
from sim.reproduce.outcome import Finding, Outcome, single

if TYPE_CHECKING:
    import pandas as pd

STALL_S = 1.0
"""A time without any decode token that counts as a stall, in seconds."""
QUICK = {"trace.synthetic.num_requests": 80, "compare.seeds": 3}
RATIO_OF = "prefill_first over stall_free"

PAPER = {
    ("prefill_first", "longest_stall_s"): "several s",
    ("stall_free", "longest_stall_s"): "none seen",
    ("stall_free", "stalls"): "0",
}


def run(options: Options) -> Outcome:
    """Both policies over the same requests, seed by seed; figures show the first seed."""
    import pandas as pd

    from sim.reproduce.figures.tokens_over_time import tokens_over_time

    config = reproduction_config("generation_stall", QUICK if options.quick else None)
    runs = list(paired_runs(config, options.on_run))
    rows = pd.DataFrame([
        {"policy": contender.label, "seed": contender.seed, **measured(result)} for contender, result in runs
    ])  # fmt: skip
    first = [result for contender, result in runs if contender.seed == config.seed]
    return Outcome(
        name="generation_stall",
        title=REPRODUCTIONS["generation_stall"],
        source="Figure 1a; Yi-34B on two A100, 128 arxiv_summarization requests, all present at 0",
        findings=_findings(rows),
        tables={"stalls": rows},
        figures={"tokens_over_time": tokens_over_time([result.view for result in first])},
        runs=first,
    )


def measured(result: Result) -> dict[str, Any]:
    """Stalls of the whole replica (no decode token for STALL_S) once it decodes, and gaps of requests."""
    rows = result.iterations[result.iterations["num_decodes"] > 0]
    start, length = rows["start_s"].to_numpy(), rows["duration_s"].to_numpy()
    # between rows; within one the iterations follow at once
    gaps = (start[1:] + (length / rows["repeats"].to_numpy())[1:]) - (start + length)[:-1]
    each = np.concatenate([gaps, length / rows["repeats"].to_numpy()])
    stalls = gaps[gaps > STALL_S]
    summary = result.summary
    return {
        "stalls": len(stalls),
        "stalled_s": float(stalls.sum()),
        "longest_stall_s": float(each.max()),
        "tbt_p50_s": summary["tbt_s"]["p50"],
        "tbt_p99_s": summary["tbt_s"]["p99"],
        "tbt_max_s": summary["tbt_s"]["max"],
        "makespan_s": summary["makespan_s"],
    }


def _findings(rows: pd.DataFrame) -> list[Finding]:
    asked = (
        ("longest_stall_s", "longest time without any decode token", "time"),
        ("stalls", f"times longer than {STALL_S:g} s without any decode token", "count"),
        ("stalled_s", "their sum", "time"),
        ("tbt_p50_s", "P50 TBT", "time"),
        ("tbt_p99_s", "P99 TBT", "time"),
        ("tbt_max_s", "longest TBT of a request", "time"),
        ("makespan_s", "time to serve all", "time"),
    )
    table = {str(policy): group for policy, group in rows.groupby("policy", sort=False)}
    findings = [
        Finding(f"{policy}: {what}", PAPER.get((policy, key)), interval(group[key].to_numpy()), unit)
        for key, what, unit in asked
        for policy, group in table.items()
    ]
    both = [table[policy]["tbt_max_s"].to_numpy() for policy in ("prefill_first", "stall_free")]
    ratio = paired(*both).ratio or single(float("nan"))
    return [*findings, Finding(f"longest TBT of a request, {RATIO_OF}", None, ratio, "times")]
