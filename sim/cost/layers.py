"""LayerProfile: a folder of layer times measured inside an engine, read and checked.

Owns the files dense.csv, per_sequence.csv, attention.csv, moe.csv (models with experts) and the skew
correction named in meta.yaml. Times are microseconds of GPU kernels on one rank, for one call.
Format: casys-kaist/LLMServingSim (MIT). Putting layers together into iterations is in compose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.core.errors import ProfileError, nearest
from sim.cost.csv_table import CsvTable, check_distinct, check_units, read_csv
from sim.cost.fields import read_yaml
from sim.cost.skew import SkewTable, read_skew

ONCE_AN_ITERATION = ("embedding", "final_layernorm")
TWICE_A_LAYER = ("layernorm",)
ONCE_A_LAYER = ("qkv_proj", "qk_norm", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
REQUIRED = ("embedding", "final_layernorm", "layernorm", "qkv_proj", "rotary_emb", "o_proj")
MLP = ("gate_up_proj", "act_fn", "down_proj")
PER_SEQUENCE = ("lm_head", "sampler")

Curve = dict[int, float]
"""Microseconds by tokens or sequences."""
AttentionPoint = tuple[int, int, int, int]
"""(prefill_chunk, kv_prefill, n_decode, kv_decode); 0 = absent."""

@dataclass(frozen=True)
class LayerProfile:
    """What one folder measured; `name` is the folder's."""

    folder: Path
    name: str
    meta: Mapping[str, Any]
    dense: dict[str, Curve]
    per_sequence: dict[str, Curve]
    attention: dict[AttentionPoint, float]
    moe: dict[tuple[int, int], float] | None
    """By (tokens, activated experts), once a layer; None for a model without experts."""
    skew: SkewTable | None
    """None where meta.yaml does not enable it."""


def read_layers(folder: Path, tensor_parallel: int) -> LayerProfile:
    """Read and check a profile folder; ProfileError names file, row and value of what is wrong."""
    if not folder.is_dir():
        raise ProfileError(f"{folder}: no such profile folder")
    meta = read_yaml(folder / "meta.yaml") if (folder / "meta.yaml").is_file() else {}
    moe = _read_moe(folder / "moe.csv") if (folder / "moe.csv").is_file() else None
    required = REQUIRED if moe is not None else REQUIRED + MLP
    known = (*ONCE_AN_ITERATION, *TWICE_A_LAYER, *ONCE_A_LAYER)
    return LayerProfile(
        folder,
        folder.resolve().name,
        meta,
        _read_curves(folder / "dense.csv", "tokens", known, required),
        _read_curves(folder / "per_sequence.csv", "sequences", PER_SEQUENCE, PER_SEQUENCE),
        _read_attention(folder / "attention.csv"),
        moe,
        read_skew(folder, meta, tensor_parallel),
    )


def _read_curves(
    path: Path, axis: str, known: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, Curve]:
    table = read_csv(path, ("layer", axis, "time_us"))
    layers, points = table.columns["layer"], table.integers(axis, 1)
    times = table.times("time_us")
    check_distinct(table, list(zip(layers, points, strict=True)), f"layer and {axis}")
    curves: dict[str, Curve] = {}
    for row, layer, point, time in zip(table.rows, layers, points, times, strict=True):
        if layer not in known:
            match = nearest(layer, known)
            hint = f"did you mean {match!r}? " if match else ""
            raise table.error(row, f"unknown layer {layer!r}: {hint}known: {', '.join(known)}")
        curves.setdefault(layer, {})[point] = time
    for layer in required:
        if layer not in curves:
            raise ProfileError(f"{path}: layer {layer!r} was not measured; found: {', '.join(curves)}")
        if len(curves[layer]) < 2:
            raise ProfileError(f"{path}: layer {layer!r} has one row; at least two are needed")
    measured = sorted(set(points))
    for layer, curve in curves.items():
        holes = [point for point in measured if point not in curve]
        if holes:
            raise ProfileError(
                f"{path}: layer {layer!r} has no row for {axis} {holes[0]}, which other layers have"
            )
    rows = zip(table.rows, layers, points, times, strict=True)
    check_units(table, [((layer,), point, time, row) for row, layer, point, time in rows], axis)
    return curves


def _read_attention(path: Path) -> dict[AttentionPoint, float]:
    names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    table = read_csv(path, (*names, "time_us"))
    points = list(zip(*(table.integers(name) for name in names), strict=True))
    check_distinct(table, points, "point")
    times = table.times("time_us")
    for row, (chunk, cached, decodes, context) in zip(table.rows, points, strict=True):
        if (decodes == 0) != (context == 0) or (chunk == 0 and (cached > 0 or decodes == 0)):
            raise table.error(
                row,
                f"prefill_chunk {chunk}, kv_prefill {cached}, n_decode {decodes}, kv_decode {context} is no "
                "batch: a part that is absent has 0 in both of its columns",
            )
    _check_attention(table, points, times)
    return dict(zip(points, times, strict=True))


def _check_attention(table: CsvTable, points: list[AttentionPoint], times: list[float]) -> None:
    """Raise where a kind of row is missing, a time lies far off its neighbours, or the grid has a hole."""
    for what, chosen in (("decode-only", lambda p: p[0] == 0), ("prefill-only", lambda p: p[2] == 0)):
        if sum(map(chosen, points)) < 2:
            raise ProfileError(f"{table.path}: at least two {what} rows are needed")
    rows = list(zip(table.rows, points, times, strict=True))
    beside = [(point[:3], point[3], time, row) for row, point, time in rows if point[2]]
    check_units(table, beside, "kv_decode")
    alone = [(point[:1], point[1], time, row) for row, point, time in rows if not point[2]]
    check_units(table, alone, "kv_prefill")
    _check_holes(table, set(points))


def _check_holes(table: CsvTable, points: set[AttentionPoint]) -> None:
    """Raise where a batch was not measured and a larger one with the same chunk was.

    Large batches may be missing because they did not fit in memory; a gap below them is a mistake.
    """
    by_chunk: dict[tuple[int, int], dict[int, set[int]]] = {}
    for chunk, cached, decodes, context in points:
        if decodes:
            by_chunk.setdefault((chunk, cached), {}).setdefault(context, set()).add(decodes)
    for (chunk, cached), by_context in by_chunk.items():
        numbers = sorted(set().union(*by_context.values()))
        for context, found in by_context.items():
            missing = [number for number in numbers if number < max(found) and number not in found]
            if missing:
                raise ProfileError(
                    f"{table.path}: prefill_chunk {chunk}, kv_prefill {cached}, n_decode {missing[0]}, "
                    f"kv_decode {context} was not measured, though n_decode {max(found)} was"
                )


def _read_moe(path: Path) -> dict[tuple[int, int], float]:
    """Rows of one rank's experts: (tokens, activated_experts), without expert parallelism."""
    table = read_csv(path, ("tokens", "activated_experts", "time_us"))
    ranks = table.integers("ep", 1) if "ep" in table.columns else [1] * len(table.rows)
    keys = list(zip(table.integers("tokens", 1), table.integers("activated_experts", 1), strict=True))
    check_distinct(table, [(*key, rank) for key, rank in zip(keys, ranks, strict=True)], "point")
    times = table.times("time_us")
    found = {key: time for key, time, rank in zip(keys, times, ranks, strict=True) if rank == 1}
    if not found:
        raise ProfileError(f"{path}: no rows with ep 1")
    return found
