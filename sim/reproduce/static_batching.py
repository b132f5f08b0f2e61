"""Request-level against iteration-level batching (Orca): slots that idle until the longest output ends.

First with all requests waiting and nothing but the spread of output lengths changing, then over
arrival rates with Orca's lengths, where waiting for a batch to end costs latency too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.api.result import Result
from sim.core.rng import stream
from sim.report.statistics import interval, paired
from sim.reproduce.catalogue import REPRODUCTIONS, Options
from sim.reproduce.configs import OnRun, paired_runs, reproduction_config
from sim.reproduce.outcome import Finding, Outcome, single

if TYPE_CHECKING:
    import pandas as pd

    from sim.config import Config

MEAN_OUTPUT = 128
SPREADS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Standard deviation of the output lengths over their mean."""
RATES_PER_S = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
LATENCY_LIMIT = 2.0
"""Orca compares at about twice the latency per token of an idle system."""
SAMPLES = 20_000
IDLE = "static's idle slots"
GAIN = "throughput, continuous over static"
QUICK_SPREADS, QUICK_RATES = (0.0, 0.5, 1.0), (0.05, 0.6, 2.5)
QUICK = {"trace.synthetic.num_requests": 160, "compare.seeds": 3}


def run(options: Options) -> Outcome:
    """Throughput and idle slots by spread; latency per token by rate."""
    import pandas as pd

    from sim.reproduce.figures.static_panels import static_panels

    smaller = QUICK if options.quick else {}
    spreads = pd.DataFrame(
        row
        for spread in (QUICK_SPREADS if options.quick else SPREADS)
        for row in _at_spread(spread, smaller, options.on_run)
    )
    config = reproduction_config("orca_rates", smaller)
    rates = pd.DataFrame(
        row
        for rate in (QUICK_RATES if options.quick else RATES_PER_S)
        for row in _at_rate(config, rate, options.on_run)
    )
    expected = pd.DataFrame([{"spread": s, **expected_waste(s, 32)} for s in sorted(set(spreads["spread"]))])
    return Outcome(
        name="static_batching",
        title=REPRODUCTIONS["static_batching"],
        source="Orca, Figures 3 and 10; BLOOM-176B on eight A100 in place of GPT-3 175B on sixteen",
        findings=[*_spread_findings(spreads, expected), *_rate_findings(rates)],
        tables={"spread": spreads, "expected": expected, "rates": rates},
        figures={"static_batching": static_panels(spreads, expected, rates)},
        notes=[
            f"rates are read between those run, at {LATENCY_LIMIT:g} times an idle system's latency per token"
        ],
    )


def sigma_of(spread: float) -> float:
    """Of the log-normal distribution whose standard deviation is `spread` times its mean."""
    return math.sqrt(math.log1p(spread**2))


def expected_waste(spread: float, slots: int) -> dict[str, float]:
    """Idle share of a full static batch, and the gain without it were all iterations equally long.

    With B slots a batch lasts as long as its longest output: idle = 1 - mean / E[longest of B].
    """
    sigma = sigma_of(spread)
    draws = stream(0, "reproduce.expected_waste").standard_normal((SAMPLES, slots))
    lengths = np.maximum(1, np.rint(MEAN_OUTPUT * np.exp(sigma * draws - sigma**2 / 2)))
    longest = float(lengths.max(axis=1).mean() / lengths.mean())
    return {"idle_share": 1 - 1 / longest, "ratio": longest}


def _at_spread(spread: float, smaller: dict[str, Any], on_run: OnRun | None) -> Iterator[dict[str, Any]]:
    sigma = sigma_of(spread)
    output = {
        "trace.synthetic.output_tokens.sigma": sigma,
        "trace.synthetic.output_tokens.median": MEAN_OUTPUT * math.exp(-(sigma**2) / 2),
    }
    config = reproduction_config("static_batching", {**output, **smaller})
    for contender, result in paired_runs(config, on_run):
        yield {
            "spread": spread, "policy": contender.label, "seed": contender.seed,
            "requests_per_s": result.summary["throughput"]["requests_per_s"],
            "idle_share": idle_share(result, contender.config.policy.parameters["max_batch_size"]),
        }  # fmt: skip


def idle_share(result: Result, slots: int) -> float:
    """Slots without a request that gets a token, over all slots, while there are enough to fill them.

    The tail is left out: from the last admission on no policy could fill the slots.
    """
    rows, requests = result.iterations, result.requests
    last_admission = (requests["arrival_s"] + requests["queue_s"]).max()
    rows = rows[rows["start_s"] <= last_admission]
    if result.summary["waste"]["idle_slot_share"] is not None:
        return float(result.summary["waste"]["idle_slot_share"])
    used = (rows["num_decodes"] + rows["num_prefills"]) * rows["repeats"]
    return float(1 - used.sum() / (slots * rows["repeats"].sum()))


def _at_rate(config: Config, rate_per_s: float, on_run: OnRun | None) -> Iterator[dict[str, Any]]:
    """The same requests at another rate: arrivals stretched, so that the draws stay common."""
    at_rate = config.updated(trace=config.trace.updated(rate_scale=rate_per_s))
    for contender, result in paired_runs(at_rate, on_run):
        yield {
            "rate_per_s": rate_per_s, "policy": contender.label, "seed": contender.seed,
            "latency_per_token_s": result.summary["normalized_latency_s"]["p50"],
            "requests_per_s": result.summary["throughput"]["requests_per_s"],
        }  # fmt: skip


def _spread_findings(spreads: pd.DataFrame, expected: pd.DataFrame) -> list[Finding]:
    findings = []
    for spread, group in spreads.groupby("spread"):
        static, continuous = (group[group["policy"] == policy] for policy in ("static", "continuous"))
        ratio = paired(continuous["requests_per_s"].to_numpy(), static["requests_per_s"].to_numpy()).ratio
        idle = interval(static["idle_share"].to_numpy())
        theory = float(expected.loc[expected["spread"] == spread, "idle_share"].iloc[0])
        findings += [
            Finding(f"spread {spread:g}: {GAIN}", None, ratio or single(math.nan), "times"),
            Finding(f"spread {spread:g}: {IDLE}", f"{100 * theory:.1f} % (theory)", idle, "share"),
        ]
    return findings


def _rate_findings(rates: pd.DataFrame) -> list[Finding]:
    """The highest rate of each at the latency limit, and the ratio that Orca reports."""
    reached = {str(policy): rate_at_limit(group) for policy, group in rates.groupby("policy", sort=False)}
    statics = {policy: rate for policy, rate in reached.items() if policy.startswith("static")}
    best = max(statics, key=lambda policy: statics[policy])
    findings = [
        Finding(f"{policy}: requests/s at {LATENCY_LIMIT:g} times idle latency", None, single(rate), "rate")
        for policy, rate in reached.items()
    ]
    gain = single(reached["continuous"] / statics[best])
    return [*findings, Finding(f"continuous over {best}, the best static one", "36.9 x", gain, "times")]


def rate_at_limit(group: pd.DataFrame) -> float:
    """Where the mean over seeds of the median latency per token passes the limit, log-linearly between rates.

    The limit is that of one request alone: LATENCY_LIMIT times the value at the lowest rate. The highest
    rate run if it is never passed.
    """
    means = group.groupby("rate_per_s")["latency_per_token_s"].mean()
    over = np.log(means.to_numpy() / (LATENCY_LIMIT * means.iloc[0]))
    rates = np.log(means.index.to_numpy())
    passed = int(np.argmax(over > 0))
    if over[passed] <= 0:
        return float(means.index[-1])
    share = -over[passed - 1] / (over[passed] - over[passed - 1])
    return float(np.exp(rates[passed - 1] + share * (rates[passed] - rates[passed - 1])))
