"""A fitted model on disk: a YAML spec, and beside it the quantile table that it names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from sim.trace.fit import TraceFit
from sim.trace.options import SyntheticSpec
from sim.trace.parse import spec_to_mapping
from sim.trace.quantiles import Floats
from sim.trace.write import write_bytes


def write_fit(fit: TraceFit, path: Path, table_path: Path, comments: list[str]) -> list[Path]:
    """Write the spec, and the table if the spec uses it; the paths written.

    `comments` go to the top of each (source, licence, command).
    """
    text = spec_text(fit.spec)
    write_bytes(path, (_commented(comments) + text).encode())
    if table_path.name not in text:
        return [path]
    write_bytes(table_path, (_commented(comments) + _table_text(fit.table)).encode())
    return [path, table_path]


def spec_text(spec: SyntheticSpec) -> str:
    """The spec as YAML, what is at its default left out."""
    import yaml

    text: str = yaml.safe_dump(_sparse(spec), sort_keys=False, default_flow_style=None, width=120)
    return text


def _sparse(spec: Any) -> dict[str, Any]:
    """spec_to_mapping without the fields that are at their defaults."""
    kept = {}
    defaults = {field.name: field.default for field in dataclasses.fields(spec)}
    for key, value in spec_to_mapping(spec).items():
        current = getattr(spec, key, None)
        if key in defaults and current == defaults[key]:
            continue
        kept[key] = _sparse(current) if dataclasses.is_dataclass(current) else _short(value)
    return kept


def _short(value: Any) -> Any:
    """Whole numbers without their decimals, in lists too."""
    if isinstance(value, list):
        return [_short(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _commented(lines: list[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _table_text(table: dict[str, Floats]) -> str:
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines = [",".join(table), *(",".join(f"{value:.6g}" for value in row) for row in rows)]
    return "\n".join(lines) + "\n"
