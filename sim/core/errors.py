"""Errors by who must act: the user (exit code 2, one message) or the maintainers (exit code 1)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SimError(Exception):
    """Base of every error this project raises on purpose."""


class UserError(SimError):
    """The user's input is wrong. The message names file, key or row, value, and what is allowed."""


class ConfigError(UserError):
    """A config file or a --set override is wrong."""


class TraceError(UserError):
    """A trace file is wrong."""


class ProfileError(UserError):
    """A measured profile or a cost model file is wrong."""


class PolicyError(UserError):
    """A policy raised, broke a limit, or asked for something impossible; names the iteration."""


class StalledError(PolicyError):
    """Work is pending and the policy made no progress (design.md section 3: never a silent loop)."""


# What other systems call our terms; used in suggestions only, never accepted as input.
FOREIGN_TERMS = {
    "max_num_seqs": "max_batch_size",
    "batch_size": "max_batch_size",
    "max_num_batched_tokens": "token_budget",
    "chunk_size": "token_budget",
    "num_gpu_blocks": "num_blocks",
    "num_gpu_blocks_override": "num_blocks",
    "tensor_parallel_size": "tensor_parallel",
    "tp": "tensor_parallel",
    "enable_prefix_caching": "prefix_caching",
    "scheduler": "policy",
    "itl": "tbt",
    "itl_s": "tbt_s",
    "input_tokens": "prompt_tokens",
    "input_length": "prompt_tokens",
    "output_length": "output_tokens",
}


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name the user most likely meant: a known foreign term, else the closest spelling."""
    names = list(allowed)
    foreign = FOREIGN_TERMS.get(name.lower())
    if foreign in names:
        return foreign
    close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return close[0] if close else None


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """`did you mean 'x'? allowed: a, b, c`, without the question where nothing is near."""
    names = list(allowed)
    match = nearest(name, names)
    listed = f"allowed: {', '.join(names)}"
    return f"did you mean {match!r}? {listed}" if match else listed
