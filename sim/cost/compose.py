"""Compose: from layer times to the times of whole iterations.

Owns how often each layer runs, what of an iteration depends on what, and padding to captured graphs.
The rules are those of vLLM's forward pass as the profile measured it; see docs/cost-models.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.cost.attention import DecodeSurface, MixedSurface, Work, fill_holes, grid_of
from sim.cost.catalogue import Gpu, ModelShape
from sim.cost.collective import AllReduce
from sim.cost.layers import ONCE_AN_ITERATION, TWICE_A_LAYER, AttentionPoint, Curve, LayerProfile
from sim.cost.roofline import Roofline, activated_experts
from sim.cost.skew import SkewTable
from sim.cost.validity import ValidRange


class Extended:
    """Values by a whole number, measured up to the last; beyond it in proportion to `growth`."""

    __slots__ = ("_growth", "values")

    def __init__(self, values: Sequence[float], growth: Callable[[float], float]) -> None:
        self.values = [float(value) for value in values]  # not numpy's scalars, which are slow
        self._growth = growth

    def at(self, number: int) -> float:
        """The value at `number`."""
        values = self.values
        if number < len(values):
            return values[number]
        return values[-1] * self._growth(number) / self._growth(len(values) - 1)


@dataclass(frozen=True)
class IterationTables:
    """Microseconds of whole iterations, by what they depend on."""

    decode_us: Extended
    """All but attention of a decode-only iteration, by the number of decodes."""
    mixed_us: Extended
    """All but attention and the head of an iteration with prefill, by its new tokens."""
    sequence_us: Extended
    """Head and sampling of an iteration with prefill, by its sequences."""
    decode_attention: DecodeSurface
    mixed_attention: MixedSurface
    """With the single number of decodes 0 where none was measured beside a prefill."""
    skew: SkewTable | None
    valid: ValidRange


@dataclass(frozen=True, slots=True)
class Assembly:
    """What the layer times are put together for."""

    shape: ModelShape
    gpu: Gpu
    tensor_parallel: int
    link: AllReduce
    graph_sizes: tuple[int, ...] = ()
    """Token counts captured as CUDA graphs; an iteration is padded to the next one, () = never."""

    def padded(self, tokens: int) -> int:
        """Tokens the layers compute for an iteration of `tokens`."""
        place = bisect_left(self.graph_sizes, tokens)
        return self.graph_sizes[place] if place < len(self.graph_sizes) else tokens


def compose(profile: LayerProfile, assembly: Assembly) -> IterationTables:
    """The iteration tables of a profile folder."""
    shape, layers = assembly.shape, assembly.shape.layers
    roofline = Roofline(shape, assembly.gpu, assembly.tensor_parallel)
    tokens = _common_end(profile.dense)
    sequences = _common_end(profile.per_sequence)
    dense = _dense_us(profile, assembly, tokens)
    per_sequence = sum(_every(curve, sequences) for curve in profile.per_sequence.values())
    heads = Extended(np.asarray(per_sequence).tolist(), roofline.head_us)
    padded = dense[[min(assembly.padded(number), tokens) for number in range(tokens + 1)]]
    decode = [padded[number] + heads.at(number) for number in range(tokens + 1)]
    decode_surface, mixed_surface = surfaces(profile.attention, layers, roofline.work())
    valid = ValidRange(
        min(decode_surface.decodes[-1], sequences),
        decode_surface.contexts[-1],
        min(tokens, int(mixed_surface.chunks[-1])),
        int(mixed_surface.cached[-1]),
    )

    def grows(tokens: float) -> float:
        return roofline.fixed_us(tokens, 1)

    return IterationTables(
        Extended(decode, grows),
        Extended(padded.tolist(), grows),
        heads,
        decode_surface,
        mixed_surface,
        profile.skew,
        valid,
    )


def surfaces(
    attention: dict[AttentionPoint, float], layers: int, work: Work
) -> tuple[DecodeSurface, MixedSurface]:
    """Both surfaces of one iteration from times of one layer."""
    alone = {(n, context): time for (chunk, _, n, context), time in attention.items() if chunk == 0}
    axes, table = grid_of(alone)
    decode = DecodeSurface(axes[0], axes[1], layers * fill_holes(axes, table, (1, 0)))
    beside = {point: time for point, time in attention.items() if point[0] > 0 and point[2] > 0}
    prefill = {point[:2]: time for point, time in attention.items() if point[0] > 0 and point[2] == 0}
    contexts = sorted({point[3] for point in beside}) or [1]
    points = dict(beside)
    for (chunk, cached), time in prefill.items():
        points.update({(chunk, cached, 0, context): time for context in contexts})
    mixed_axes, mixed_table = grid_of(points)
    # Context first: the finest axis; chunk last, for points that only its neighbours measured.
    filled = fill_holes(mixed_axes, mixed_table, (3, 1, 2, 0))
    return decode, MixedSurface(mixed_axes, layers * filled, work)


def _dense_us(profile: LayerProfile, assembly: Assembly, tokens: int) -> NDArray[np.float64]:
    """All but attention and head, by new tokens 0 .. `tokens`."""
    shape = assembly.shape
    total = np.zeros(tokens + 1)
    for layer, curve in profile.dense.items():
        if layer in ONCE_AN_ITERATION:
            runs = 1
        else:
            runs = shape.layers * (2 if layer in TWICE_A_LAYER else 1)
        total += runs * _every(curve, tokens)
    if profile.moe is not None:
        total += shape.layers * _experts_us(profile.moe, shape, tokens)
    total += np.array([assembly.link.iteration_us(shape, number) for number in range(tokens + 1)])
    return total


def _experts_us(
    moe: dict[tuple[int, int], float], shape: ModelShape, tokens: int
) -> NDArray[np.float64]:
    """One layer's experts, by new tokens: read at the number of experts that have work."""
    axes, table = grid_of(moe)
    filled = fill_holes(axes, table, (0, 1))
    times = np.empty(tokens + 1)
    for number in range(tokens + 1):
        by_experts = [float(np.interp(number, axes[0], column)) for column in filled.T]
        times[number] = np.interp(activated_experts(shape, max(number, 1)), axes[1], by_experts)
    return times


def _every(curve: Curve, last: int) -> NDArray[np.float64]:
    """The curve at 0, 1, ... `last`, linear between its points."""
    knots = sorted(curve)
    return np.interp(np.arange(last + 1), knots, [curve[knot] for knot in knots])


def _common_end(curves: dict[str, Curve]) -> int:
    """Up to where every layer was measured."""
    return min(max(curve) for curve in curves.values())
