"""ProfileSpec: the keys of a `profile` cost model, and what a profile folder says of itself.

`{kind: profile, path: DIR}` reads a folder of layer times; `{kind: profile, tables: {...}}` holds
small tables of whole iterations inline (see stored).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.core.errors import ProfileError
from sim.cost.catalogue import Gpu, ModelShape, gpu_names, load_gpu, load_model, model_names
from sim.cost.collective import VLLM_ONE_SHOT_BYTES, AllReduce
from sim.cost.compose import Assembly, compose
from sim.cost.fields import check_keys, integer, number, read_yaml, text
from sim.cost.layers import read_layers
from sim.cost.names import gpu_called, model_called
from sim.cost.profile import ProfileModel
from sim.cost.roofline import Roofline, check_magnitude
from sim.cost.stored import tables_from_spec

HARDWARE_KEYS = ("model", "gpu", "tensor_parallel")
FOLDER_KEYS = ("path", "link_gb_s", "link_latency_us", "all_reduce", "graph_sizes", "skew", "mixed_attention")
ATTENTION_RULES = ("measured", "separate")
ALL_REDUCE_RULES = {"vllm": VLLM_ONE_SHOT_BYTES, "ring": 0}
"""Largest buffer that two ranks exchange in one step."""

VLLM_GRAPH_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
"""Token counts vLLM captures as CUDA graphs by default."""


def profile_from_spec(spec: Mapping[str, Any], where: str) -> ProfileModel:
    """The model of a folder or of inline tables; ProfileError names what is wrong."""
    if "tables" in spec:
        check_keys(spec, ("tables", *HARDWARE_KEYS), where)
        shape, gpu = load_model(text(spec, "model", where)), load_gpu(text(spec, "gpu", where))
        parallel = integer(spec, "tensor_parallel", where, default=1)
        return ProfileModel(tables_from_spec(spec["tables"], f"{where}: tables", shape, gpu, parallel))
    check_keys(spec, (*FOLDER_KEYS, *HARDWARE_KEYS), where)
    rule = spec.get("mixed_attention", "measured")
    if rule not in ATTENTION_RULES:
        raise ProfileError(f"{where}: mixed_attention must be measured or separate, not {rule!r}")
    assembly = assembly_of(spec, where)
    tables = compose(read_layers(Path(spec["path"]), assembly.tensor_parallel), assembly)
    roofline = Roofline(assembly.shape, assembly.gpu, assembly.tensor_parallel)
    check_magnitude(tables.decode_us.at(1), roofline, f"{where}: {spec['path']}")
    if not _switch(spec, "skew", where):
        tables = dataclasses.replace(tables, skew=None)
    model = ProfileModel(tables, separate_attention=rule == "separate")
    model.mixed_host_us = assembly.gpu.mixed_host_us
    return model


def assembly_of(spec: Mapping[str, Any], where: str) -> Assembly:
    """How to put the folder's layers together: the hardware and link `spec` names or implies."""
    shape, gpu, parallel = hardware(spec, Path(text(spec, "path", where)), where)
    rule = spec.get("all_reduce", "vllm")
    if rule not in ALL_REDUCE_RULES:
        raise ProfileError(f"{where}: all_reduce must be {' or '.join(ALL_REDUCE_RULES)}, not {rule!r}")
    link = AllReduce(
        parallel,
        number(spec, "link_gb_s", where, default=gpu.link_gb_s, above=0),
        number(spec, "link_latency_us", where, default=gpu.link_latency_us),
        ALL_REDUCE_RULES[rule],
    )
    return Assembly(shape, gpu, parallel, link, _graph_sizes(spec.get("graph_sizes"), where))


def hardware(spec: Mapping[str, Any], folder: Path, where: str) -> tuple[ModelShape, Gpu, int]:
    """Model, GPU and tensor_parallel: as `spec` says, else by the folder's meta.yaml and name."""
    meta = read_yaml(folder / "meta.yaml") if (folder / "meta.yaml").is_file() else {}
    named_model, named_gpu = (str(meta.get(key) or "") for key in ("model", "gpu"))
    model = spec.get("model") or model_called(named_model) or named_model.split("/")[-1].lower()
    gpu = spec.get("gpu") or (gpu_called(named_gpu) if named_gpu else None)
    if not model or not gpu:
        key, known = ("gpu", gpu_names()) if model else ("model", model_names())
        raise ProfileError(
            f"{where}: {key} is missing, and {folder / 'meta.yaml'} does not tell; known: {', '.join(known)}"
        )
    parallel = spec.get("tensor_parallel")
    if parallel is None:
        named = re.search(r"tp(\d+)$", folder.resolve().name)
        if named is None:
            raise ProfileError(
                f"{where}: tensor_parallel is missing, and the folder's name {folder.name!r} does not end "
                "in tpN"
            )
        parallel = int(named.group(1))
    parallel = integer({"tensor_parallel": parallel}, "tensor_parallel", where)
    return load_model(model), load_gpu(gpu), parallel


def _graph_sizes(given: object, where: str) -> tuple[int, ...]:
    if given is None or given is False:
        return ()
    if given == "vllm":
        return VLLM_GRAPH_SIZES
    if not isinstance(given, list) or not all(type(size) is int and size > 0 for size in given):
        raise ProfileError(f"{where}: graph_sizes must be vllm or a list of token counts, not {given!r}")
    return tuple(sorted(given))


def _switch(spec: Mapping[str, Any], key: str, where: str) -> bool:
    value = spec.get(key, True)
    if not isinstance(value, bool):
        raise ProfileError(f"{where}: {key} must be true or false, not {value!r}")
    return value
