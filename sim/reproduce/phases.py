"""Prompt and token phases (Splitwise): what each costs on two GPUs, and what that does to two Azure hours.

The phase profile holds the shipped cost models against the medians they were fitted to. The hours are
played slower and faster through every policy, to see at which rate each still serves within the SLO.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.core.protocols import CostModel
from sim.core.shipped import shipped_root
from sim.cost import curves, load_cost_model
from sim.reproduce.catalogue import REPRODUCTIONS, Options
from sim.reproduce.configs import paired_runs, reproduction_config
from sim.reproduce.outcome import Finding, Outcome, single

if TYPE_CHECKING:
    import pandas as pd

MODELS = {"A100": "a100-80gb-llama-2-70b-tp8.yaml", "H100": "h100-80gb-llama-2-70b-tp8.yaml"}
PROMPTS = (128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MEASURED_PREFILL_MS = {
    "A100": (65.3, 66.8, 92.9, 154.5, 274.2, 661.2, 1549.8),
    "H100": (58.2, 51.7, 54.0, 77.9, 136.8, 390.3, 844.9),
}
"""One prompt of PROMPTS tokens: medians of the public splitwise-sim profile (MIT), Llama-2-70B, TP 8."""
MEASURED_TOKEN_MS = {
    "A100": (44.9, 44.6, 45.8, 46.5, 50.4, 53.0, 71.6),
    "H100": (29.8, 30.3, 31.8, 32.5, 34.2, 38.6, 50.2),
}
"""One token of each of BATCHES requests (prompts of 512 tokens, outputs of 128), the same source."""
TOKEN_CONTEXT = 576
"""Mean context of those tokens."""

HOURS = ("conv", "code")
SCALES = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
QUICK_SCALES = (0.1, 0.6)
QUICK_REQUESTS = 250
MEAN_TBT_S = 0.1
"""The looser objective: the TTFT limit of the config, and a mean time between tokens (TPOT) within this."""
OBJECTIVES = {"every_gap": "every gap within 200 ms", "mean_gap": "mean gap within 100 ms"}
"""Column of the hours' table to what a request is held against, besides a TTFT within 2 s."""
ATTAINMENT = 0.9
"""Share of requests within the SLO down to which a rate counts as served."""


def run(options: Options) -> Outcome:
    """The profile of both phases, then the hours that are there."""
    import pandas as pd

    from sim.reproduce.figures.phase_panels import phase_panels

    models = {gpu: load_cost_model({"file": file}, "reproduce phases") for gpu, file in MODELS.items()}
    prefill, token = _prefill(models), _token(models)
    rows, notes = [], []
    for hour in HOURS:
        overrides = _trace_of(hour, options)
        if overrides is None:
            missing = f"AzureLLMInferenceTrace_{hour}.csv"
            notes.append(f"the {hour} hour is left out: {missing} was not found (--traces)")
            continue
        notes.append(f"{hour}: {Path(overrides['trace.path']).name if overrides else 'the shipped sample'}")
        rows += list(_hour(hour, overrides, options))
    hours = pd.DataFrame(rows)
    return Outcome(
        name="phases",
        title=REPRODUCTIONS["phases"],
        source="Splitwise, section III; measured: its simulator's public profile, Llama-2-70B on eight GPUs",
        findings=[*_profile_findings(models), *_hour_findings(hours)],
        tables={"prefill": prefill, "token": token, "hours": hours},
        figures={"phases": phase_panels(prefill, token, hours, OBJECTIVES, ATTAINMENT)},
        notes=notes,
    )


def _prefill(models: dict[str, CostModel]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([
        {"gpu": gpu, "prompt_tokens": n, "ours_ms": curves.prefill_ms(model, n), "measured_ms": measured}
        for gpu, model in models.items()
        for n, measured in zip(PROMPTS, MEASURED_PREFILL_MS[gpu], strict=True)
    ])  # fmt: skip


def _token(models: dict[str, CostModel]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([
        {
            "gpu": gpu,
            "batch": n,
            "ours_ms": curves.decode_ms(model, n, TOKEN_CONTEXT),
            "measured_ms": measured,
        }
        for gpu, model in models.items()
        for n, measured in zip(BATCHES, MEASURED_TOKEN_MS[gpu], strict=True)
    ])  # fmt: skip


def _trace_of(hour: str, options: Options) -> dict[str, Any] | None:
    """Overrides that name the hour's file; none for the shipped sample, None where neither is there."""
    beside = shipped_root().parent / "shared" / "data" / "traces"
    folder = options.traces or beside
    file = folder / f"AzureLLMInferenceTrace_{hour}.csv"
    if file.is_file():
        return {"trace.path": str(file)}
    return {} if hour == "conv" else None


def _hour(hour: str, overrides: dict[str, Any], options: Options) -> Iterator[dict[str, Any]]:
    smaller = {"trace.limit": QUICK_REQUESTS} if options.quick else {}
    unrecorded = {"engine.record_iterations": False}
    config = reproduction_config(f"phases_{hour}", {**unrecorded, **overrides, **smaller})
    for scale in QUICK_SCALES if options.quick else SCALES:
        at_scale = config.updated(trace=config.trace.updated(rate_scale=scale))
        for contender, result in paired_runs(at_scale, options.on_run):
            summary, requests = result.summary, result.requests
            arrivals = requests["arrival_s"]
            # a request without a second token has no mean gap, and keeps it
            kept = (requests["ttft_s"] <= config.slo.ttft_s) & ~(requests["tpot_s"] > MEAN_TBT_S)
            yield {
                "hour": hour, "policy": contender.label, "rate_scale": scale,
                "requests_per_s": (len(arrivals) - 1) / float(arrivals.max() - arrivals.min()),
                "every_gap": summary["slo_attainment"], "mean_gap": float(kept.mean()),
                "ttft_p90_s": summary["ttft_s"]["p90"], "tbt_p99_s": summary["tbt_s"]["p99"],
            }  # fmt: skip


def rate_within(group: pd.DataFrame, objective: str) -> float:
    """The highest rate up to which ATTAINMENT holds, linear between the rates run; 0 if none does."""
    rates, kept = group["requests_per_s"].to_numpy(), group[objective].to_numpy()
    failed = np.flatnonzero(kept < ATTAINMENT)
    if not len(failed):
        return float(rates[-1])
    first = int(failed[0])
    if first == 0:
        return 0.0
    share = (kept[first - 1] - ATTAINMENT) / (kept[first - 1] - kept[first])
    return float(rates[first - 1] + share * (rates[first] - rates[first - 1]))


def _profile_findings(models: dict[str, CostModel]) -> list[Finding]:
    a100, h100 = models["A100"], models["H100"]
    findings = []
    for tokens in (512, 2048, 8192):
        place = PROMPTS.index(tokens)
        measured = MEASURED_PREFILL_MS["H100"][place] / MEASURED_PREFILL_MS["A100"][place]
        ours = curves.prefill_ms(h100, tokens) / curves.prefill_ms(a100, tokens)
        name = f"prefill of {tokens:,} tokens, H100 over A100"
        findings.append(Finding(name, f"{measured:.2f} x measured", single(ours), "times"))
    for batch in (1, 64):
        place = BATCHES.index(batch)
        measured = MEASURED_TOKEN_MS["H100"][place] / MEASURED_TOKEN_MS["A100"][place]
        ours = curves.decode_ms(h100, batch, TOKEN_CONTEXT) / curves.decode_ms(a100, batch, TOKEN_CONTEXT)
        name = f"a token of each of {batch} requests, H100 over A100"
        findings.append(Finding(name, f"{measured:.2f} x measured", single(ours), "times"))
    for gpu, model in models.items():
        times = MEASURED_TOKEN_MS[gpu]
        grown = curves.decode_ms(model, 64, TOKEN_CONTEXT) / curves.decode_ms(model, 1, TOKEN_CONTEXT)
        name = f"{gpu}: token time at batch 64 over batch 1"
        findings.append(Finding(name, f"{times[-1] / times[0]:.2f} x measured", single(grown), "times"))
        best = max(PROMPTS, key=lambda tokens: tokens / curves.prefill_ms(model, tokens))
        measured_rates = np.array(PROMPTS) / np.array(MEASURED_PREFILL_MS[gpu])
        measured_best = PROMPTS[int(measured_rates.argmax())]
        name = f"{gpu}: prompt length at which prefill is fastest (tokens)"
        findings.append(Finding(name, f"{measured_best:,} measured", single(best), "count"))
    return findings


def _hour_findings(hours: pd.DataFrame) -> list[Finding]:
    findings = []
    for (hour, policy), group in hours.groupby(["hour", "policy"], sort=False):
        for objective, meaning in OBJECTIVES.items():
            name = f"{hour}, {policy}: requests/s with {100 * ATTAINMENT:.0f} % within SLO, {meaning}"
            findings.append(Finding(name, None, single(rate_within(group, objective)), "rate"))
    return findings
