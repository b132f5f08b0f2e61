"""Loading: from the config's cost_model section, or a calibrated file, to a cost model.

Owns the table of kinds and the keys every kind shares; what a kind's own keys mean is in its file.
A new kind is one file with a function (spec, where) -> CostModel and one line in KINDS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sim.core.errors import ProfileError
from sim.core.protocols import CostModel
from sim.core.registry import Registry
from sim.cost.catalogue import catalogue_dir
from sim.cost.coefficients import coefficients_from_spec
from sim.cost.fields import mapping, read_yaml, text
from sim.cost.host import KEYS as HOST_KEYS
from sim.cost.host import HostOverhead, WithHost
from sim.cost.profile_spec import profile_from_spec
from sim.cost.roofline import roofline_from_spec

KINDS: Registry[Callable[[Mapping[str, Any], str], CostModel]] = Registry("cost model kind")
KINDS.add("coefficients", coefficients_from_spec)
KINDS.add("profile", profile_from_spec)
KINDS.add("roofline", roofline_from_spec)

DESCRIPTIVE_KEYS = ("name", "provenance", "errors")
"""Keys of a calibrated file that tell about the model and do not change its answers."""
HARDWARE_KEYS = ("model", "gpu", "tensor_parallel")
"""Descriptive too for kinds that hold their own numbers."""


def load_cost_model(spec: Mapping[str, Any], where: str = "cost_model") -> CostModel:
    """The cost model a config's cost_model section describes.

    `{kind: K, ...}` gives the kind's own keys inline; `{file: PATH}` reads them from a calibrated
    file, and further keys override those of the file. With either, host_overhead_us and
    cold_start_us (see host). The model also answers `outside(batch, iterations)`: how many of those
    iterations lie outside what was measured. ProfileError (ConfigError for an unknown kind) names the
    file, key and value.
    """
    given = mapping(spec, where)
    if "file" in given:
        if "kind" in given:
            raise ProfileError(f"{where}: give either kind or file, not both")
        path = find_cost_file(text(given, "file", where), where)
        overrides = {key: value for key, value in given.items() if key != "file"}
        given, where = {**read_cost_file(path), **overrides}, str(path)
    kind = text(given, "kind", where)
    load = KINDS.get(kind)
    ignored = {"kind", *DESCRIPTIVE_KEYS, *HOST_KEYS}
    if kind == "coefficients":
        ignored |= set(HARDWARE_KEYS)
    model = load({key: value for key, value in given.items() if key not in ignored}, where)
    overhead = HostOverhead.from_spec(given, where, getattr(model, "mixed_host_us", 0.0))
    return WithHost(model, overhead) if overhead != HostOverhead(0, 0, 0, 0) else model


def read_cost_file(path: Path) -> dict[str, Any]:
    """The content of a cost model file; a profile folder it names is looked for beside it too."""
    content = read_yaml(path)
    folder = content.get("path")
    if isinstance(folder, str) and not Path(folder).exists():
        content["path"] = str(path.parent / folder)
    return content


def find_cost_file(name: str, where: str) -> Path:
    """The file `name`: as given, or under the folder that holds configs/, or in configs/cost."""
    root = catalogue_dir().parent
    candidates = [Path(name), root / name, root / "configs" / "cost" / name]
    candidates.append(candidates[-1].with_name(f"{Path(name).name}.yaml"))
    for path in candidates:
        if path.is_file():
            return path
    known = sorted(path.stem for path in (root / "configs" / "cost").glob("*.yaml"))
    raise ProfileError(f"{where}: no cost model file {name!r}; shipped: {', '.join(known)}")
