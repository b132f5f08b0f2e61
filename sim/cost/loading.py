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
from sim.cost.roofline import roofline_from_spec

KINDS: Registry[Callable[[Mapping[str, Any], str], CostModel]] = Registry("cost model kind")
KINDS.add("coefficients", coefficients_from_spec)
KINDS.add("roofline", roofline_from_spec)

DESCRIPTIVE_KEYS = ("name", "model", "gpu", "tensor_parallel", "provenance", "errors")
"""Keys of a calibrated file that tell about the model and do not change its answers."""


def load_cost_model(spec: Mapping[str, Any], where: str = "cost_model") -> CostModel:
    """The cost model a config's cost_model section describes.

    `{kind: K, ...}` gives the kind's own keys inline; `{file: PATH}` reads them from a calibrated
    file. ProfileError (ConfigError for an unknown kind) names the file, key and value.
    """
    given = mapping(spec, where)
    if "file" not in given:
        return KINDS.get(text(given, "kind", where))(
            {key: value for key, value in given.items() if key != "kind"}, where
        )
    if "kind" in given:
        raise ProfileError(f"{where}: give either kind or file, not both")
    path = find_cost_file(text(given, "file", where), where)
    content = {key: value for key, value in read_yaml(path).items() if key not in DESCRIPTIVE_KEYS}
    overrides = {key: value for key, value in given.items() if key != "file"}
    return load_cost_model({**content, **overrides}, str(path))


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
