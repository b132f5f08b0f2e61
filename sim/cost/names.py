"""Names: what the catalogue calls a model or GPU that others name their own way.

Owns reading names of runs and profiles (`meta-llama/Llama-3.1-8B-Instruct`, `h200_sxm`); files of the
catalogue are in catalogue.
"""

from __future__ import annotations

import re

from sim.core.errors import ProfileError, suggestion
from sim.cost.catalogue import gpu_names, load_gpu, model_names

SAME_SHAPE = re.compile(r"instruct|chat|base|it|hf|thinking|\d{4}|v\d[\d.]*")
"""Words of a model's name that tell how it was trained or when, not its shape."""


def model_called(name: str) -> str | None:
    """The model of the catalogue that a served model's name means; None if it has none of that shape."""
    short = name.rsplit("/", 1)[-1].lower()
    if short in model_names():
        return short
    plain = "-".join(word for word in short.split("-") if not SAME_SHAPE.fullmatch(word))
    return plain if plain in model_names() else None


def gpu_called(name: str) -> str:
    """The GPU of the catalogue that a name such as RTXPRO6000 or h100_sxm means; ProfileError if none."""
    wanted = _plain(name)
    for known in gpu_names():
        titles = (_plain(known), _plain(load_gpu(known).full_name))
        if wanted and any(title.startswith(wanted) or wanted in title for title in titles):
            return known
    for known in gpu_names():
        if wanted.startswith(_plain(known.split("-")[0])):
            return known
    raise ProfileError(f"gpu {name!r} is not in the catalogue: {suggestion(name, gpu_names())}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
