"""Memory: how many KV blocks fit beside weights and activations (`num_blocks: auto`)."""

from __future__ import annotations

from sim.core.errors import ProfileError
from sim.cost.catalogue import Gpu, ModelShape

GIB = 1024**3

RUNTIME_GIB = 0.25
"""What the runtime holds beside the engine's own tensors (context, cuBLAS workspace); a rank of a
tensor-parallel group holds as much again for the collectives."""

LARGEST_DEFAULT_BUDGET_TOKENS = 8192
"""Tokens of the engine's memory-profiling pass where no token_budget says otherwise (vLLM's default)."""


def auto_num_blocks(
    model: ModelShape,
    gpu: Gpu,
    tensor_parallel: int = 1,
    utilisation: float = 0.9,
    block_size: int = 16,
    *,
    token_budget: int | None = None,
    max_batch_size: int = 256,
) -> int:
    """KV blocks of one replica, as vLLM sizes them: utilisation * memory - weights - activations.

    `token_budget` (default: the model's longest sequence, at most 8192 tokens) and `max_batch_size`
    set the peak of the activations. An estimate: a measured number always wins.
    ProfileError if the weights do not fit or the KV heads cannot be split.
    """
    if tensor_parallel < 1 or model.heads % tensor_parallel:
        raise ProfileError(
            f"tensor_parallel must divide the {model.heads} heads of {model.name}, not {tensor_parallel!r}"
        )
    if not 0 < utilisation <= 1:
        raise ProfileError(f"gpu memory utilisation must be above 0 and at most 1, not {utilisation!r}")
    tokens = token_budget or min(model.max_model_len, LARGEST_DEFAULT_BUDGET_TOKENS)
    taken = (
        model.stored_weight_bytes / tensor_parallel
        + activation_bytes(model, tensor_parallel, tokens, max_batch_size)
        + RUNTIME_GIB * GIB * (2 if tensor_parallel > 1 else 1)
    )
    free = utilisation * gpu.memory_gib * GIB - taken
    blocks = int(free // (block_size * model.kv_bytes_per_token(tensor_parallel)))
    if blocks < 1:
        raise ProfileError(
            f"{model.name} does not fit on {gpu.name} with tensor_parallel {tensor_parallel}: it needs "
            f"{taken / GIB:.1f} GiB before any KV, and {utilisation:g} of {gpu.memory_gib:g} GiB is usable"
        )
    return blocks


def activation_bytes(model: ModelShape, tensor_parallel: int, tokens: int, sequences: int) -> float:
    """Peak of the activations of one rank in a pass over `tokens`: the MLP's, and the logits.

    Residual and normed hidden state stand beside the MLP's gate, up and product; logits are there
    in 16 and in 32 bits for every sequence.
    """
    width = model.intermediate * (model.experts_per_token if model.experts > 1 else 1)
    hidden = 2 * model.hidden
    mlp = width * (3 if model.gated_mlp else 2) / tensor_parallel
    logits = sequences * model.vocab * (2 + 4) / tensor_parallel
    return 2 * tokens * (hidden + mlp) + logits
