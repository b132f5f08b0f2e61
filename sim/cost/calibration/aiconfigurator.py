"""Aiconfigurator: operator times measured by others, sampled once into tables of our own.

Needs the optional package aiconfigurator-core (extra `aiconfigurator`, Apache-2.0) at calibration only.
It composes one model's iteration from operator tables measured per GPU; we read that at grid points,
split into attention and the rest, and never ask it again. The grid of token counts is the one its
matrix products were measured at, so that steps between tiles survive.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim.core.errors import ProfileError, suggestion
from sim.cost.calibration.rows import MeasuredRow, batch_of
from sim.cost.catalogue import Gpu, ModelShape

SYSTEMS = {
    "a100-80gb": "a100_sxm",
    "b200-180gb": "b200_sxm",
    "h100-80gb": "h100_sxm",
    "h200-141gb": "h200_sxm",
    "l40s-48gb": "l40s",
    "rtxpro6000-96gb": "rtx_pro_6000_server",
}
BACKEND = "vllm"
MS_US = 1e3

DECODES = (1, 2, 4, 8, 12, 16, 17, *range(32, 129, 16), 129, 160, 192, 224, 256, 257, 512)
CONTEXTS = tuple(2**power for power in range(4, 18))
TOKENS = (
    *(1, 2, 4, 8, 12, 16, 17, 32, 48, 64, 80, 96, 112, 128, 129, 160, 192, 224, 256),
    *(edge + extra for edge in range(256, 4353, 256) for extra in (1, 256) if edge + extra < 4354),
    *(8192, 16384),
)
CHUNKS = tuple(2**power for power in range(0, 15))
CACHED = (0, *(2**power for power in range(8, 18)))

UNSEEN_CONTEXTS = (90, 700, 1500, 5800, 23_000)
UNSEEN_DECODES = (3, 6, 24, 40, 100, 200)
UNSEEN_CHUNKS = (24, 100, 360, 700, 1400, 3000)

Table = dict[str, Any]


class Sampler:
    """One compiled engine of the package, asked for whole iterations in microseconds."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def prefill_us(self, new: int, cached: int) -> tuple[float, float]:
        """All but attention, and attention, of one prompt's chunk."""
        steps, _ = self._engine.run_static_per_op(batch_size=1, isl=new + cached, osl=1, prefix=cached)
        return _split(steps)

    def decode_us(self, decodes: int, context: int) -> tuple[float, float]:
        """All but attention, and attention, of decodes that read `context` each."""
        _, steps = self._engine.run_static_per_op(batch_size=decodes, isl=max(context - 1, 1), osl=2)
        return _split(steps)

    def mixed_us(self, new: int, decodes: int, context: int) -> float:
        """One whole prompt of `new` tokens, and decodes at `context`, as the package adds them up."""
        (fixed_ms, _, _) = self._engine.mixed_step_breakdown(new, decodes, new, 2)[1:]
        return float(fixed_ms) * MS_US + self.prefill_us(new, 0)[1] + self.decode_us(decodes, context)[1]


def _split(steps: list[tuple[Any, ...]]) -> tuple[float, float]:
    attention = sum(step[1] for step in steps if step[0].endswith("_attention"))
    return (sum(step[1] for step in steps) - attention) * MS_US, attention * MS_US


@contextmanager
def sampler(shape: ModelShape, gpu: Gpu, tensor_parallel: int) -> Iterator[Sampler]:
    """A sampler of that model on that GPU; ProfileError where the package is not there or lacks it."""
    try:
        from aiconfigurator_core.sdk import EngineHandle
    except ImportError as error:
        raise ProfileError(
            "source aiconfigurator: the package aiconfigurator-core is not installed; "
            'pip install "llm-scheduler-sim[aiconfigurator]"'
        ) from error
    if gpu.name not in SYSTEMS:
        raise ProfileError(f"source aiconfigurator: gpu {gpu.name!r}: {suggestion(gpu.name, SYSTEMS)}")
    modes = {
        "gemm_quant_mode": "fp8" if shape.weight_bytes <= 1 else "bfloat16",
        "kvcache_quant_mode": "fp8" if shape.kv_bytes <= 1 else "bfloat16",
        "fmha_quant_mode": "bfloat16",
    }
    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(published_config(shape)))
        try:
            engine = EngineHandle.compile(
                folder, SYSTEMS[gpu.name], BACKEND, tp_size=tensor_parallel, **modes
            )
            made = Sampler(engine)
            made.prefill_us(1, 0)
            made.decode_us(1, CONTEXTS[0])
        except Exception as error:  # the package raises many kinds; all say that it lacks data
            raise ProfileError(
                f"source aiconfigurator: {shape.name} on {gpu.name} with tensor_parallel "
                f"{tensor_parallel}: {error}"
            ) from error
        yield made


def published_config(shape: ModelShape) -> dict[str, Any]:
    """The model's config.json, as far as the package reads it."""
    experts = shape.experts > 1
    family = "qwen3_moe" if experts else "qwen3" if shape.qk_norm else "llama"
    names = {"qwen3_moe": "Qwen3Moe", "qwen3": "Qwen3", "llama": "Llama"}
    config: dict[str, Any] = {
        "architectures": [f"{names[family]}ForCausalLM"],
        "model_type": family,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.max_model_len,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": shape.tied_embeddings,
        "hidden_act": "silu",
    }
    if experts:
        config |= {
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.experts_per_token,
            "moe_intermediate_size": shape.intermediate,
        }
    return config


def sampled_tables(sample: Sampler, longest: int) -> dict[str, Table]:
    """The tables that `stored` reads, up to contexts of `longest` tokens (at least 16)."""
    contexts = [context for context in CONTEXTS if context <= max(longest, CONTEXTS[0])]
    cached = [count for count in CACHED if count <= longest]
    return {
        "decode": _curve("num_decodes", DECODES, lambda n: sample.decode_us(n, CONTEXTS[0])[0]),
        "mixed": _curve("tokens", TOKENS, lambda tokens: sample.prefill_us(tokens, 0)[0]),
        "decode_attention": {
            "num_decodes": list(DECODES),
            "context": contexts,
            "time_us": [[_short(sample.decode_us(n, c)[1]) for c in contexts] for n in DECODES],
        },
        "prefill_attention": {
            "tokens": list(CHUNKS),
            "cached": cached,
            "time_us": [[_short(sample.prefill_us(new, c)[1]) for c in cached] for new in CHUNKS],
        },
    }


def _curve(axis: str, points: tuple[int, ...], time_us: Callable[[int], float]) -> Table:
    return {axis: list(points), "time_us": [_short(time_us(point)) for point in points]}


def _short(time_us: float) -> float:
    """Five significant digits: a hundredth of a per mille, and files that can be read."""
    return float(f"{time_us:.5g}")


def unseen_rows(sample: Sampler, longest: int) -> list[MeasuredRow]:
    """Iterations between the grid points, for the errors of the tables."""
    rows = []
    contexts = [context for context in UNSEEN_CONTEXTS if context <= longest]
    for decodes in UNSEEN_DECODES:
        for context in contexts:
            time_us = sum(sample.decode_us(decodes, context))
            rows.append(MeasuredRow(batch_of(decodes, decodes * context), time_us, "aiconfigurator"))
    for new in UNSEEN_CHUNKS:
        for cached in (0, *contexts):
            time_us = sum(sample.prefill_us(new, cached))
            rows.append(MeasuredRow(batch_of(0, 0, 1, new, cached), time_us, "aiconfigurator"))
        for decodes in UNSEEN_DECODES:
            for context in contexts:
                time_us = sample.mixed_us(new, decodes, context)
                batch = batch_of(decodes, decodes * context, 1, new)
                rows.append(MeasuredRow(batch, time_us, "aiconfigurator"))
    return rows
