"""Sources: from whatever was measured to the content of a cost model file.

Owns telling sources apart, what is fitted from which, and what the file says of its origin.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sim.core.errors import ProfileError
from sim.core.protocols import CostModel
from sim.cost.calibration.aiconfigurator import sampled_tables, sampler, unseen_rows
from sim.cost.calibration.composed import composed_rows, with_unequal_contexts
from sim.cost.calibration.efficiency import fit_efficiency
from sim.cost.calibration.fit import fit_coefficients, measured_together, several_contexts
from sim.cost.calibration.heldout import Prediction, error_table, held_out_predictions, predict
from sim.cost.calibration.rows import MeasuredRow, range_of
from sim.cost.calibration.screening import screened
from sim.cost.calibration.tables import read_table
from sim.cost.catalogue import load_gpu, load_model
from sim.cost.coefficients import CoefficientModel
from sim.cost.compose import compose
from sim.cost.layers import LayerProfile, read_layers
from sim.cost.loading import load_cost_model
from sim.cost.profile import ProfileModel
from sim.cost.profile_spec import assembly_of
from sim.cost.roofline import Efficiency, Roofline, RooflineModel, check_magnitude

AICONFIGURATOR = "aiconfigurator"
FITTED_KINDS = ("coefficients", "profile", "roofline")
TABLE_FILES = ("iterations.csv", "prefill.csv", "decode.csv")


@dataclass(frozen=True)
class Options:
    """What to make, and what the sources do not say themselves."""

    kind: str | None = None
    """coefficients, profile or roofline; None: what suits the source."""
    model: str | None = None
    gpu: str | None = None
    tensor_parallel: int | None = None
    name: str | None = None
    source: str | None = None
    """Where the measurement comes from, in words."""
    licence: str | None = None
    link_gb_s: float | None = None
    """The measured machine's link between GPUs, for layer times, which leave collectives out."""
    link_latency_us: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The file's content, the model it describes, and how it did."""

    spec: dict[str, Any]
    model: CostModel
    seen: list[Prediction]
    """Every measured row, by the final model."""
    unseen: list[Prediction]
    """Rows predicted by models that had not seen them."""


def calibrate(sources: Sequence[str | Path], options: Options) -> Calibration:
    """A cost model from `aiconfigurator`, a profile folder, or CSV tables. ProfileError if they are bad."""
    if [str(source) for source in sources] == [AICONFIGURATOR]:
        return _from_aiconfigurator(options)
    paths = [Path(source) for source in sources]
    if len(paths) == 1 and (paths[0] / "dense.csv").is_file():
        return _from_layers(paths[0], options)
    return _from_tables(_table_files(paths), options)


def write_cost_file(path: Path, spec: dict[str, Any]) -> None:
    """Write a cost model file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    text = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def _table_files(paths: Sequence[Path]) -> list[Path]:
    files = []
    for path in paths:
        if path.is_dir():
            found = [path / name for name in TABLE_FILES if (path / name).is_file()]
            if not found:
                raise ProfileError(
                    f"{path}: holds none of dense.csv (layer times), {', '.join(TABLE_FILES)} (tables)"
                )
            files += found
        else:
            files.append(path)
    return files


def _from_tables(files: Sequence[Path], options: Options) -> Calibration:
    wanted = (options.model, options.gpu, options.tensor_parallel)
    rows, left_out = screened([row for file in files for row in read_table(file, wanted)])
    usual = ", ".join(file.name for file in files)
    _check_unit(rows, options, usual)
    if options.kind == "profile":
        raise ProfileError(
            "kind profile needs a folder of layer times or aiconfigurator; tables give coefficients"
        )
    made = (_roofline if options.kind == "roofline" else _coefficients)(rows, options, usual)
    if left_out:
        made.spec["provenance"]["left_out"] = left_out
    return made


def _check_unit(rows: Sequence[MeasuredRow], options: Options, where: str) -> None:
    """Raise if the quickest decode is out of all proportion to the hardware, where that is known."""
    decode_us = [row.time_us for row in rows if row.kind == "decode"]
    if decode_us and options.model is not None and options.gpu is not None:
        shape, gpu = load_model(options.model), load_gpu(options.gpu)
        check_magnitude(min(decode_us), Roofline(shape, gpu, options.tensor_parallel or 1), where)


def _from_layers(folder: Path, options: Options) -> Calibration:
    link = {"link_gb_s": options.link_gb_s, "link_latency_us": options.link_latency_us}
    given = {key: value for key, value in (_hardware(options) | link).items() if value is not None}
    assembly = assembly_of({"path": str(folder), **given}, "calibrate")
    profile = read_layers(folder, assembly.tensor_parallel)
    tables = compose(profile, assembly)
    rows = composed_rows(profile, tables, assembly.shape.layers)
    roofline = Roofline(assembly.shape, assembly.gpu, assembly.tensor_parallel)
    check_magnitude(tables.decode_us.at(1), roofline, str(folder))
    version = profile.meta.get("vllm_version")
    usual = f"{profile.name}: layer times measured in vLLM {version or '(version unknown)'}, composed"
    named = replace(
        options,
        model=assembly.shape.name,
        gpu=assembly.gpu.name,
        tensor_parallel=assembly.tensor_parallel,
        name=options.name or profile.name,
    )
    if options.kind == "roofline":
        return _roofline(rows, named, usual)
    if options.kind == "profile":

        def fit(kept: Sequence[MeasuredRow]) -> CostModel:
            return ProfileModel(compose(without(profile, rows, kept), assembly))

        unseen = held_out_predictions(rows, fit)
        content = {"path": str(folder.resolve())} | {k: v for k, v in link.items() if v is not None}
        return _made("profile", content, ProfileModel(tables), rows, unseen, named, usual)
    return _coefficients(with_unequal_contexts(rows, ProfileModel(tables)), named, usual)


def without(profile: LayerProfile, rows: Sequence[MeasuredRow], kept: Sequence[MeasuredRow]) -> LayerProfile:
    """The profile as if only `kept` of `rows` had been measured, inner points of dense layers included."""
    left = set(map(id, kept))
    gone = [row.batch for row in rows if id(row) not in left]
    points = {
        (b.prefill_tokens, b.chunks[0].cached if b.chunks else 0, b.num_decodes, b.decode_context_max)
        for b in gone
    }
    tokens, sequences = {b.num_tokens for b in gone}, {b.num_sequences for b in gone}
    return replace(
        profile,
        attention={point: time for point, time in profile.attention.items() if point not in points},
        dense=_thinned(profile.dense, tokens),
        per_sequence=_thinned(profile.per_sequence, sequences),
    )


def _thinned(curves: dict[str, dict[int, float]], gone: set[int]) -> dict[str, dict[int, float]]:
    return {
        layer: {x: time for x, time in curve.items() if x not in gone or x in (min(curve), max(curve))}
        for layer, curve in curves.items()
    }


def _from_aiconfigurator(options: Options) -> Calibration:
    for key in ("model", "gpu"):
        if getattr(options, key) is None:
            raise ProfileError(f"source aiconfigurator: give --{key}, the name of a {key} in configs/{key}s")
    assert options.model is not None and options.gpu is not None
    shape, gpu, parallel = load_model(options.model), load_gpu(options.gpu), options.tensor_parallel or 1
    named = replace(options, model=shape.name, gpu=gpu.name, tensor_parallel=parallel)
    with sampler(shape, gpu, parallel) as sample:
        tables = sampled_tables(sample, shape.max_model_len)
        rows = unseen_rows(sample, shape.max_model_len)
    usual = "aiconfigurator-core 0.12, vLLM operator tables, sampled on a grid"
    named = replace(named, licence=options.licence or "Apache-2.0")
    hardware = _hardware(named)
    model = load_cost_model({"kind": "profile", "tables": tables, **hardware}, "aiconfigurator")
    if options.kind == "coefficients":
        return _coefficients(rows, named, usual)
    if options.kind == "roofline":
        return _roofline(rows, named, usual)
    return _made("profile", {"tables": tables}, model, rows, predict(model, rows), named, usual)


def _coefficients(rows: Sequence[MeasuredRow], options: Options, usual: str) -> Calibration:
    context_us = None
    if options.model is not None and options.gpu is not None:
        shape, gpu = load_model(options.model), load_gpu(options.gpu)
        roofline = Roofline(shape, gpu, options.tensor_parallel or 1, Efficiency())
        context_us = roofline.kv_token_us(mixed=False)
    model = fit_coefficients(rows, range_of(rows), context_us)
    unseen = held_out_predictions(rows, lambda kept: fit_coefficients(kept, None, context_us))
    made = _made("coefficients", coefficient_content(model), model, rows, unseen, options, usual)
    if assumed := _assumed(rows, context_us):
        made.spec["provenance"]["assumed"] = assumed
    return made


def _assumed(rows: Sequence[MeasuredRow], context_us: float | None) -> list[str]:
    """What the rows could not tell, in sentences."""
    assumed = []
    if not measured_together(rows):
        assumed.append(
            "fewer than 3 rows have decodes beside a prefill: there a decode costs what it costs alone"
        )
    if not several_contexts(rows):
        how = "is free beyond it" if context_us is None else "costs what the roofline says"
        assumed.append(f"all decodes were measured at one context: context {how}")
    return assumed


def coefficient_content(model: CoefficientModel) -> dict[str, Any]:
    """The keys coefficients_from_spec reads."""
    content: dict[str, Any] = {"decode": asdict(model.decode), "mixed": asdict(model.mixed)}
    if model.valid is not None:
        content["range"] = model.valid.to_spec()
    return content


def _roofline(rows: Sequence[MeasuredRow], options: Options, usual: str) -> Calibration:
    """The efficiencies of one machine. Few and physical, they are fitted to all rows at once."""
    if options.model is None or options.gpu is None:
        raise ProfileError("kind roofline needs a model and a gpu of the catalogue")
    shape, gpu, parallel = load_model(options.model), load_gpu(options.gpu), options.tensor_parallel or 1

    def fit(kept: Sequence[MeasuredRow]) -> RooflineModel:
        return RooflineModel(Roofline(shape, gpu, parallel, fit_efficiency([(shape, gpu, parallel, kept)])))

    efficiency = fit_efficiency([(shape, gpu, parallel, rows)])
    model = RooflineModel(Roofline(shape, gpu, parallel, efficiency))
    content = {"efficiency": asdict(efficiency)}
    return _made("roofline", content, model, rows, held_out_predictions(rows, fit), options, usual)


def _hardware(options: Options) -> dict[str, Any]:
    return {"model": options.model, "gpu": options.gpu, "tensor_parallel": options.tensor_parallel}


def _made(
    kind: str,
    content: dict[str, Any],
    model: CostModel,
    rows: Sequence[MeasuredRow],
    unseen: list[Prediction],
    options: Options,
    usual: str,
) -> Calibration:
    hardware = {key: value for key, value in _hardware(options).items() if value is not None}
    name = options.name or "-".join(
        [*(str(hardware[key]) for key in ("gpu", "model") if key in hardware)]
        + ([f"tp{hardware['tensor_parallel']}"] if "tensor_parallel" in hardware else [])
    )
    seen = predict(model, rows)
    spec = {
        "kind": kind,
        "name": name or "unnamed",
        **hardware,
        **content,
        "errors": {"held_out": error_table(unseen), "all_rows": error_table(seen)},
        "provenance": {
            "source": options.source or usual,
            "licence": options.licence or "not stated",
            "rows": len(rows),
            "made_by": "python -m sim calibrate",
        },
    }
    return Calibration(spec, model, seen, unseen)
