"""Stored: iteration tables written in a cost model file, small enough to be kept in YAML.

The tables are whole iterations without attention, by tokens, and attention of prefill alone and of
decodes alone; what a batch of both takes is their sum. Written by calibration, read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from sim.core.errors import ProfileError
from sim.cost.attention import DecodeSurface, MixedSurface, Table
from sim.cost.catalogue import Gpu, ModelShape
from sim.cost.compose import Extended, IterationTables
from sim.cost.fields import check_keys, mapping
from sim.cost.roofline import Roofline
from sim.cost.validity import ValidRange

SECTIONS = ("decode", "mixed", "decode_attention", "prefill_attention")


def tables_from_spec(
    spec: object, where: str, shape: ModelShape, gpu: Gpu, tensor_parallel: int
) -> IterationTables:
    """Tables of a mapping with SECTIONS; ProfileError names the section and what is wrong in it."""
    given = mapping(spec, where)
    check_keys(given, SECTIONS, where)
    roofline = Roofline(shape, gpu, tensor_parallel)

    def grows(number: float) -> float:
        return roofline.fixed_us(number, 1)

    decode = _curve(given, "decode", "num_decodes", where)
    mixed = _curve(given, "mixed", "tokens", where)
    decodes, contexts, decode_table = _grid(given, "decode_attention", ("num_decodes", "context"), where)
    chunks, cached, prefill_table = _grid(given, "prefill_attention", ("tokens", "cached"), where)
    return IterationTables(
        Extended(decode, grows),
        Extended(mixed, grows),
        Extended([0.0], lambda number: 1.0),
        DecodeSurface(decodes, contexts, decode_table),
        MixedSurface((chunks, cached, [0], [1]), prefill_table[:, :, None, None], roofline.work()),
        None,
        ValidRange(
            min(decodes[-1], len(decode) - 1), contexts[-1], min(chunks[-1], len(mixed) - 1), cached[-1]
        ),
    )


def _curve(given: Mapping[str, Any], section: str, axis: str, where: str) -> list[float]:
    """The section's times at every whole number from 0 on, linear between those written."""
    inside = f"{where}: {section}"
    content = mapping(given.get(section), inside)
    check_keys(content, (axis, "time_us"), inside)
    knots = _axis(content, axis, inside)
    times = _numbers(content.get("time_us"), (len(knots),), f"{inside}: time_us")
    return [float(time) for time in np.interp(np.arange(knots[-1] + 1), knots, times)]


def _grid(
    given: Mapping[str, Any], section: str, axes: tuple[str, str], where: str
) -> tuple[list[int], list[int], Table]:
    inside = f"{where}: {section}"
    content = mapping(given.get(section), inside)
    check_keys(content, (*axes, "time_us"), inside)
    rows, columns = (_axis(content, axis, inside) for axis in axes)
    return rows, columns, _numbers(content.get("time_us"), (len(rows), len(columns)), f"{inside}: time_us")


def _axis(content: Mapping[str, Any], name: str, where: str) -> list[int]:
    """Increasing whole numbers."""
    values = content.get(name)
    if not isinstance(values, list) or not values or not all(type(value) is int for value in values):
        raise ProfileError(f"{where}: {name} must be a list of whole numbers, not {values!r}")
    for left, right in pairwise(values):
        if right <= left:
            raise ProfileError(f"{where}: {name} must increase, but {right} follows {left}")
    return values


def _numbers(given: object, shape: tuple[int, ...], where: str) -> Table:
    """Positive finite times of that shape."""
    try:
        times = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise ProfileError(f"{where}: must hold {' x '.join(map(str, shape))} numbers") from None
    if times.shape != shape:
        raise ProfileError(
            f"{where}: must hold {' x '.join(map(str, shape))} numbers, "
            f"not {' x '.join(map(str, times.shape))}"
        )
    if not (np.isfinite(times) & (times > 0)).all():
        place = tuple(int(number) for number in np.argwhere(~(np.isfinite(times) & (times > 0)))[0])
        raise ProfileError(f"{where}: times must be above 0; entry {place} is {times[place]:g}")
    return times
