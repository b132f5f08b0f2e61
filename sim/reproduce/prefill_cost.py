"""What prefill costs (Sarathi-Serve, sections 3 and 4): it saturates early, chunks cost little more, and
a whole prompt beside decodes makes them wait many times their usual gap.

The cost of chunks is simulated as the artifact measured it. The other two are what the shipped cost
models say, since no scheduling is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sim.core.batch import Chunk
from sim.core.protocols import CostModel
from sim.cost import curves, load_cost_model
from sim.reproduce.catalogue import REPRODUCTIONS, Options
from sim.reproduce.configs import paired_runs, reproduction_config
from sim.reproduce.outcome import Finding, Outcome, single

if TYPE_CHECKING:
    import pandas as pd

PROMPTS = (2047, 4095, 8191, 16383)
CHUNKS = ("512", "1024", "2048")
PAPER_OVERHEAD = {
    (2047, "512"): 1.152, (2047, "1024"): 1.175, (2047, "2048"): 0.999,
    (4095, "512"): 1.189, (4095, "1024"): 1.202, (4095, "2048"): 1.024,
    (8191, "512"): 1.117, (8191, "1024"): 1.109, (8191, "2048"): 0.937,
    (16383, "512"): 0.995, (16383, "1024"): 0.961, (16383, "2048"): 0.805,
}  # fmt: skip
"""Prefill time over that of the whole prompt. Source: osdi-experiments/figure-9/chunking-overhead.csv."""

MODELS = {
    "Mistral-7B, A100": "a100-80gb-mistral-7b-tp1.yaml",
    "Yi-34B, 2 A100": "a100-80gb-yi-34b-tp2.yaml",
    "Llama-2-70B, 4 A100": "a100-80gb-llama-2-70b-tp4.yaml",
}
RATE_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
FULL_PROMPTS = (512, 1024, 2048, 4096, 8192, 16384)
DECODES = (8, 16, 32, 64, 128)
CONTEXT = 1024
"""Context of each decode beside a prompt."""
WHOLE_BESIDE = "TBT with a whole prompt beside it, at most, over decode-only"
BUDGET = 512
"""The chunk that is set against whole prompts."""


def run(options: Options) -> Outcome:
    """Chunk overhead from runs; saturation and the cost beside decodes from the cost models."""
    import pandas as pd

    from sim.reproduce.figures.prefill_panels import prefill_panels

    models = {
        name: load_cost_model({"file": file}, "reproduce prefill_cost") for name, file in MODELS.items()
    }
    overhead = pd.DataFrame(_overheads(options))
    rates = pd.DataFrame(_rates(models))
    beside = pd.DataFrame(_beside_decodes(models))
    return Outcome(
        name="prefill_cost",
        title=REPRODUCTIONS["prefill_cost"],
        source="chunks: artifact, figure-9; whole prompts beside decodes: section 4",
        findings=[*_overhead_findings(overhead), *_rate_findings(models), *_beside_findings(beside)],
        tables={"chunk_overhead": overhead, "prefill_rate": rates, "beside_decodes": beside},
        figures={"prefill_cost": prefill_panels(overhead, PAPER_OVERHEAD, rates, beside)},
        notes=[
            f"beside decodes of {CONTEXT} tokens of context each; whole prompts up to {FULL_PROMPTS[-1]:,}"
        ],
    )


def _overheads(options: Options) -> Iterator[dict[str, Any]]:
    """Prefill time of a prompt by chunk, over the whole prompt's."""
    for prompt in PROMPTS[:2] if options.quick else PROMPTS:
        config = reproduction_config("prefill_cost", {"trace.synthetic.prompt_tokens.value": prompt})
        took = {
            contender.label: result.summary["makespan_s"] / result.summary["num_finished"]
            for contender, result in paired_runs(config, options.on_run)
        }
        for chunk in CHUNKS:
            yield {
                "prompt_tokens": prompt, "chunk": chunk, "prefill_s": took[chunk], "whole_s": took["whole"],
                "over_whole": took[chunk] / took["whole"], "paper": PAPER_OVERHEAD[prompt, chunk],
            }  # fmt: skip


def _rates(models: dict[str, CostModel]) -> Iterator[dict[str, Any]]:
    for name, model in models.items():
        best = max(tokens / curves.prefill_ms(model, tokens) for tokens in RATE_TOKENS)
        for tokens in RATE_TOKENS:
            share = tokens / curves.prefill_ms(model, tokens) / best
            yield {"model": name, "prompt_tokens": tokens, "share_of_best": share}


def _beside_decodes(models: dict[str, CostModel]) -> Iterator[dict[str, Any]]:
    """A gap of the decodes with a prompt, or its most expensive chunk, beside them, over one without."""
    for name, model in models.items():
        for decodes in DECODES:
            alone = curves.decode_ms(model, decodes, CONTEXT)
            for prompt in FULL_PROMPTS:
                whole = curves.hybrid_ms(model, decodes, prompt, CONTEXT)
                last = Chunk(BUDGET - decodes, prompt - BUDGET + decodes)
                batch = curves.decodes_at(decodes, CONTEXT)._replace(chunks=(last,))
                chunk = model.iteration_ns(batch) / curves.NS_PER_MS
                assert whole is not None
                yield {
                    "model": name, "decodes": decodes, "prompt_tokens": prompt, "alone_ms": alone,
                    "whole_over_alone": whole / alone, "chunk_over_alone": chunk / alone,
                }  # fmt: skip


def _overhead_findings(overhead: pd.DataFrame) -> list[Finding]:
    return [
        Finding(
            f"prefill of {row['prompt_tokens']:,} tokens in chunks of {row['chunk']}, over whole",
            f"{row['paper']:.2f} x",
            single(row["over_whole"]),
            "times",
        )
        for row in overhead.to_dict("records")
    ]


def _rate_findings(models: dict[str, CostModel]) -> list[Finding]:
    return [
        Finding(
            f"{name}: prompt from which prefill runs at 90 % of its best rate (tokens)",
            "about 512" if "Mistral" in name else None,
            single(curves.saturation_tokens(model)),
            "count",
        )
        for name, model in models.items()
    ]


def _beside_findings(beside: pd.DataFrame) -> list[Finding]:
    findings = []
    for name, group in beside.groupby("model", sort=False):
        whole, chunk = group["whole_over_alone"].max(), group["chunk_over_alone"].max()
        within = f"{name}: the same with a chunk within a budget of {BUDGET}"
        findings += [
            Finding(f"{name}: {WHOLE_BESIDE}", "up to 28.3 x", single(whole), "times"),
            Finding(within, None, single(chunk), "times"),
        ]
    return findings
