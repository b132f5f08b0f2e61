"""Catalogue: shapes of public models and data sheets of GPUs, one YAML file each under configs/.

Owns finding those files, in a checkout or an installed copy, and checking them. What is computed
from them (memory, roofline) is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sim.core.errors import ProfileError, suggestion
from sim.core.shipped import shipped_root
from sim.cost.fields import check_keys, integer, number, read_yaml, text


def catalogue_dir() -> Path:
    """The folder configs/, in a checkout or in an installed copy."""
    return shipped_root() / "configs"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions of a decoder-only transformer that set its compute and memory.

    `intermediate` is the MLP width, of one expert where there are experts. `weight_bytes` and
    `kv_bytes` are bytes an element.
    """

    name: str
    source: str
    licence: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_model_len: int
    experts: int = 1
    experts_per_token: int = 1
    gated_mlp: bool = True
    qk_norm: bool = False
    tied_embeddings: bool = False
    weight_bytes: float = 2
    kv_bytes: float = 2

    @property
    def attention_parameters(self) -> int:
        """Of one layer: query, key, value and output projections."""
        return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Of one expert of one layer: up, down and, if gated, gate projections."""
        return self.hidden * self.intermediate * (3 if self.gated_mlp else 2)

    @property
    def router_parameters(self) -> int:
        """Of one layer."""
        return self.hidden * self.experts if self.experts > 1 else 0

    @property
    def parameters(self) -> int:
        """Matrix parameters of the whole model; norms and biases (under 0.1 %) are left out."""
        layer = self.attention_parameters + self.experts * self.expert_parameters + self.router_parameters
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings

    @property
    def stored_weight_bytes(self) -> float:
        """Bytes of all weights; embeddings and head stay 16-bit when the rest is quantised."""
        embeddings = self.vocab * self.hidden * (1 if self.tied_embeddings else 2)
        return (self.parameters - embeddings) * self.weight_bytes + embeddings * max(self.weight_bytes, 2)

    def kv_bytes_per_token(self, tensor_parallel: int = 1) -> float:
        """Bytes a token takes in the KV cache of one rank; heads fewer than ranks are copied."""
        heads = max(1, self.kv_heads // tensor_parallel)
        return 2 * self.layers * heads * self.head_dim * self.kv_bytes


@dataclass(frozen=True, slots=True)
class Gpu:
    """The data sheet of one device: peaks, dense, without sparsity."""

    name: str
    full_name: str
    source: str
    memory_gib: float
    bandwidth_gb_s: float
    bf16_tflops: float
    fp8_tflops: float | None
    link_gb_s: float
    """One direction, to the other GPUs of the node."""
    link_latency_us: float
    mixed_host_us: float = 0.0
    """Host time of an iteration with a prefill in it that kernel times lack; measured, 0 if nobody has."""

    def flops_per_s(self, weight_bytes: float) -> float:
        """Peak matrix FLOP/s for weights of that many bytes; 16-bit where there is no FP8."""
        if weight_bytes <= 1 and self.fp8_tflops is not None:
            return self.fp8_tflops * 1e12
        return self.bf16_tflops * 1e12


def model_names() -> list[str]:
    """Models of the catalogue, sorted."""
    return _names("models")


def gpu_names() -> list[str]:
    """GPUs of the catalogue, sorted."""
    return _names("gpus")


def load_model(name: str) -> ModelShape:
    """The model `name` of configs/models, or the YAML file `name` points to; ProfileError if bad."""
    path = _find("models", name, "model")
    given = read_yaml(path)
    where = str(path)
    check_keys(given, [field.name for field in fields(ModelShape)], where)
    values: dict[str, Any] = {key: text(given, key, where) for key in ("name", "source", "licence")}
    values |= {key: integer(given, key, where) for key in _SIZES}
    values |= {key: integer(given, key, where, default=1) for key in ("experts", "experts_per_token")}
    values |= {key: _flag(given, key, where, default) for key, default in _FLAGS.items()}
    values |= {key: number(given, key, where, default=2, above=0) for key in ("weight_bytes", "kv_bytes")}
    shape = ModelShape(**values)
    if shape.heads % shape.kv_heads:
        raise ProfileError(f"{where}: heads {shape.heads} must be a multiple of kv_heads {shape.kv_heads}")
    return shape


def load_gpu(name: str) -> Gpu:
    """The GPU `name` of configs/gpus, or the YAML file `name` points to; ProfileError if bad."""
    path = _find("gpus", name, "gpu")
    given = read_yaml(path)
    where = str(path)
    check_keys(given, [field.name for field in fields(Gpu)], where)
    values: dict[str, Any] = {key: text(given, key, where) for key in ("name", "full_name", "source")}
    values |= {key: number(given, key, where, above=0) for key in _RATES}
    values["link_latency_us"] = number(given, "link_latency_us", where)
    values["mixed_host_us"] = number(given, "mixed_host_us", where, default=0)
    fp8 = given.get("fp8_tflops")
    return Gpu(**values, fp8_tflops=None if fp8 is None else number(given, "fp8_tflops", where, above=0))


_SIZES = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocab", "max_model_len")
_RATES = ("memory_gib", "bandwidth_gb_s", "bf16_tflops", "link_gb_s")
_FLAGS = {"gated_mlp": True, "qk_norm": False, "tied_embeddings": False}


def _flag(given: dict[str, Any], key: str, where: str, default: bool) -> bool:
    value = given.get(key, default)
    if not isinstance(value, bool):
        raise ProfileError(f"{where}: {key} must be true or false, not {value!r}")
    return value


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (catalogue_dir() / folder).glob("*.yaml"))


def _find(folder: str, name: str, kind: str) -> Path:
    if not isinstance(name, str):
        raise ProfileError(f"{kind} must be a name or a file, not {name!r}")
    path = catalogue_dir() / folder / f"{name}.yaml"
    if path.is_file():
        return path
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise ProfileError(f"unknown {kind} {name!r}: {suggestion(name, _names(folder))}")
