"""Roofline: an iteration's time from the model's shape and the GPU's data sheet.

Every operator takes the longer of its arithmetic at the peak rate and its memory traffic at the peak
bandwidth, each divided by an efficiency. Serves as a cost model of its own for hardware nobody
measured, and gives the slopes by which measured tables are extended.
Source: Williams, Waterman, Patterson, "Roofline" (CACM 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.batch import Batch
from sim.core.errors import ProfileError
from sim.cost.attention import Work
from sim.cost.catalogue import Gpu, ModelShape, load_gpu, load_model
from sim.cost.collective import AllReduce
from sim.cost.fields import check_keys, integer, mapping, number, text

ACTIVATION_BYTES = 2
SHORTEST, LONGEST = 0.03, 100.0
"""Shares of the roofline's time for one decode between which a measurement is believed."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What share of the data sheet's peaks is reached, and what an iteration costs beside it.

    The defaults are fitted to the shipped cost models by `benchmarks/bench_cost.py transfer`.
    """

    compute: float = 0.678
    """Of peak FLOP/s, in 16-bit matrix products."""
    fp8_compute: float = 0.426
    """Of peak 8-bit FLOP/s, in matrix products of models with 8-bit weights."""
    bandwidth: float = 0.776
    """Of peak bytes/s, for weights and activations."""
    attention_compute: float = 0.7
    """Of peak FLOP/s, in prefill attention."""
    kv_bandwidth: float = 0.902
    """Of peak bytes/s, for reading KV in decode-only iterations."""
    mixed_kv_bandwidth: float = 0.421
    """The same beside a prefill, where decodes get kernels made for prefill."""
    layer_us: float = 41.2
    """Small kernels and gaps, a layer."""
    iteration_us: float = 175.0
    """Sampling and gaps, an iteration."""


PEAK = Efficiency(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)


class Roofline:
    """Operator times in microseconds of one rank of `tensor_parallel`."""

    def __init__(
        self, shape: ModelShape, gpu: Gpu, tensor_parallel: int = 1, efficiency: Efficiency = PEAK
    ) -> None:
        self.shape = shape
        self.gpu = gpu
        self.tensor_parallel = tensor_parallel
        flops_per_us = gpu.flops_per_s(shape.weight_bytes) * 1e-6
        bytes_per_us = gpu.bandwidth_gb_s * 1e3
        is_fp8 = flops_per_us > gpu.flops_per_s(2) * 1e-6
        self._flops_per_us = flops_per_us * (efficiency.fp8_compute if is_fp8 else efficiency.compute)
        self._bytes_per_us = bytes_per_us * efficiency.bandwidth
        heads = shape.heads / tensor_parallel
        self._pair_us = shape.layers * 4 * heads * shape.head_dim / (
            gpu.flops_per_s(2) * 1e-6 * efficiency.attention_compute
        )
        kv_us = shape.kv_bytes_per_token(tensor_parallel) / bytes_per_us
        self._kv_us = kv_us / efficiency.kv_bandwidth
        self._mixed_kv_us = kv_us / efficiency.mixed_kv_bandwidth
        self._fixed_us = efficiency.iteration_us + shape.layers * efficiency.layer_us
        self._all_reduce = AllReduce(tensor_parallel, gpu.link_gb_s, gpu.link_latency_us)

    def dense_us(self, tokens: float) -> float:
        """All layers' matrix products over `tokens` new tokens."""
        shape = self.shape
        attention = self._product_us(tokens, shape.attention_parameters, shape.attention_parameters)
        active = activated_experts(shape, tokens)
        mlp = self._product_us(
            tokens,
            shape.experts_per_token * shape.expert_parameters + shape.router_parameters,
            active * shape.expert_parameters + shape.router_parameters,
        )
        return shape.layers * (attention + mlp)

    def head_us(self, sequences: float) -> float:
        """The output head over `sequences` last tokens; its weights are 16-bit."""
        parameters = self.shape.vocab * self.shape.hidden
        flops = 2 * sequences * parameters / self.tensor_parallel / self._flops_per_us
        return max(flops, parameters * ACTIVATION_BYTES / self.tensor_parallel / self._bytes_per_us)

    def fixed_us(self, tokens: float, sequences: int) -> float:
        """Everything in an iteration but attention."""
        reduces = self._all_reduce.iteration_us(self.shape, tokens)
        return self._fixed_us + self.dense_us(tokens) + self.head_us(sequences) + reduces

    def prefill_attention_us(self, pairs: float, cached: float) -> float:
        """Attention of chunks with that many query-key pairs over `cached` tokens, all layers."""
        return max(pairs * self._pair_us, cached * self._mixed_kv_us)

    def work(self) -> Work:
        """The slopes of attention."""
        return Work(self._pair_us, self.kv_token_us(mixed=True))

    def kv_token_us(self, mixed: bool) -> float:
        """Decode attention, all layers, for every token of context."""
        return max(self._mixed_kv_us if mixed else self._kv_us, self._pair_us)

    def _product_us(self, tokens: float, computed: float, read: float) -> float:
        """A matrix product that computes with some parameters a token and reads some once."""
        flops = 2 * tokens * computed / self.tensor_parallel / self._flops_per_us
        activations = 2 * tokens * self.shape.hidden * ACTIVATION_BYTES
        moved = read * self.shape.weight_bytes / self.tensor_parallel + activations
        return max(flops, moved / self._bytes_per_us)


def activated_experts(shape: ModelShape, tokens: float) -> float:
    """Experts with any work among `tokens` that each choose some of them evenly at random."""
    idle = 1 - shape.experts_per_token / shape.experts
    return shape.experts * (1 - idle**tokens) if shape.experts > 1 else 1.0


def check_magnitude(decode_us: float, roofline: Roofline, where: str) -> None:
    """Raise ProfileError if a small decode batch takes a time that no GPU could need: a wrong unit, say.

    `roofline` is that of the data sheet's peaks.
    """
    bound_us = roofline.fixed_us(1, 1)
    if not SHORTEST * bound_us < decode_us < LONGEST * bound_us:
        raise ProfileError(
            f"{where}: one decode iteration takes {decode_us:.4g} us, but reading the weights of "
            f"{roofline.shape.name} once takes {bound_us:.4g} us on {roofline.gpu.name}; are the times in "
            "microseconds, and are model and gpu right?"
        )


class RooflineModel:
    """Cost model of a roofline. Nothing was measured, so nothing counts as outside."""

    def __init__(self, roofline: Roofline) -> None:
        self._roofline = roofline
        self._context_us = roofline.kv_token_us(mixed=False)
        self._mixed_context_us = roofline.kv_token_us(mixed=True)
        self._decode_us: dict[int, float] = {}

    def iteration_ns(self, batch: Batch) -> int:
        """Duration of one iteration, rounded half to even, at least 1."""
        num_decodes, context_sum, _, _, chunks = batch
        if not chunks:
            time_us = self._decode_fixed_us(num_decodes) + self._context_us * context_sum
        else:
            pairs = cached = 0
            for chunk in chunks:
                pairs += chunk.attention_pairs
                cached += chunk.cached
            time_us = (
                self._roofline.fixed_us(batch.num_tokens, batch.num_sequences)
                + self._roofline.prefill_attention_us(pairs, cached)
                + self._mixed_context_us * context_sum
            )
        return round(time_us * 1000.0) or 1

    def decode_run_ns(self, batch: Batch, iterations: int) -> NDArray[np.int64]:
        """Durations of the next iterations of a decode-only batch; equal to iteration_ns of each."""
        contexts = batch.decode_context_sum + batch.num_decodes * np.arange(iterations, dtype=np.int64)
        times_us = self._decode_fixed_us(batch.num_decodes) + self._context_us * contexts
        result: NDArray[np.int64] = np.maximum(np.rint(times_us * 1000.0).astype(np.int64), 1)
        return result

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        """None: a roofline has no measured range."""
        return 0

    def _decode_fixed_us(self, num_decodes: int) -> float:
        known = self._decode_us.get(num_decodes)
        if known is None:
            known = self._decode_us[num_decodes] = self._roofline.fixed_us(num_decodes, num_decodes)
        return known


def roofline_from_spec(spec: Mapping[str, Any], where: str) -> RooflineModel:
    """The model of {model, gpu, tensor_parallel, efficiency: {...}}; ProfileError if bad."""
    check_keys(spec, ("model", "gpu", "tensor_parallel", "efficiency"), where)
    shape, gpu = load_model(text(spec, "model", where)), load_gpu(text(spec, "gpu", where))
    parallel = integer(spec, "tensor_parallel", where, default=1)
    return RooflineModel(Roofline(shape, gpu, parallel, _efficiency(spec.get("efficiency"), where)))


def _efficiency(given: object, where: str) -> Efficiency:
    if given is None:
        return Efficiency()
    inside = f"{where}: efficiency"
    values = mapping(given, inside)
    names = [field.name for field in fields(Efficiency)]
    check_keys(values, names, inside)
    usual = Efficiency()
    return Efficiency(
        **{name: number(values, name, inside, default=getattr(usual, name)) for name in names}
    )
