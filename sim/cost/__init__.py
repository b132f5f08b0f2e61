"""Cost models: how long an iteration takes on a GPU, and how much KV fits into it.

`load_cost_model` turns a config section into a model (see loading), `auto_num_blocks` sizes the KV
cache (see memory), `load_model` and `load_gpu` read the catalogue.
"""

from sim.cost.catalogue import Gpu, ModelShape, gpu_names, load_gpu, load_model, model_names
from sim.cost.loading import KINDS, load_cost_model
from sim.cost.memory import auto_num_blocks

__all__ = [
    "KINDS",
    "Gpu",
    "ModelShape",
    "auto_num_blocks",
    "gpu_names",
    "load_cost_model",
    "load_gpu",
    "load_model",
    "model_names",
]
