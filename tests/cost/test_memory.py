"""num_blocks: auto, against two block counts known from real vLLM servers."""

from __future__ import annotations

import pytest

from sim.core.errors import ProfileError
from sim.cost import auto_num_blocks, load_gpu, load_model


@pytest.mark.parametrize(
    ("model", "gpu", "known"),
    [("llama-2-7b", "h100-80gb", 7463), ("llama-3.1-8b", "rtx4090-24gb", 2588)],
)
def test_known_servers_within_two_percent(model: str, gpu: str, known: int) -> None:
    blocks = auto_num_blocks(load_model(model), load_gpu(gpu), 1, 0.9, 16)
    assert blocks == pytest.approx(known, rel=0.02)


def test_kv_is_what_weights_leave() -> None:
    """Law: a GiB more of memory gives that GiB, times utilisation, over the bytes of a block."""
    model, gpu = load_model("llama-3.1-8b"), load_gpu("h100-80gb")
    fewer, more = (auto_num_blocks(model, gpu, 1, share, 16) for share in (0.8, 0.9))
    block_bytes = 16 * model.kv_bytes_per_token()
    assert block_bytes == 2 * 1024**2
    assert more - fewer == pytest.approx(0.1 * gpu.memory_gib * 1024**3 / block_bytes, abs=1)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(ProfileError, match="llama-2-70b does not fit on a100-80gb with tensor_parallel 1"):
        auto_num_blocks(load_model("llama-2-70b"), load_gpu("a100-80gb"))


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ProfileError, match=r"did you mean .h100-80gb"):
        load_gpu("h100")
    with pytest.raises(ProfileError, match=r"unknown model .lama-3\.1-8b.: did you mean .llama-3\.1-8b."):
        load_model("lama-3.1-8b")
