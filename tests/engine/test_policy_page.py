"""docs/writing-a-policy.md and the Policy protocol name everything that the engine offers a policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.core.protocols import Policy, Step

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/writing-a-policy.md").read_text(encoding="utf-8")
LIMITS = {"token_budget", "max_batch_size"}


def asked_of_policies() -> set[str]:
    """Attributes and methods that the engine looks for on a policy and does without."""
    read = re.compile(r'(?:getattr|hasattr)\((?:self\._)?policy, "(\w+)"')
    files = (ROOT / "sim/engine").glob("*.py")
    return {name for file in files for name in read.findall(file.read_text(encoding="utf-8"))} - {"name"}


@pytest.mark.parametrize("name", sorted(asked_of_policies() - LIMITS))
def test_what_the_engine_looks_for_is_declared(name: str) -> None:
    assert re.search(rf"^ +{name}[:(]", Policy.__doc__ or "", re.MULTILINE)


@pytest.mark.parametrize("name", sorted(asked_of_policies() - {"unlimited_kv"}))
def test_what_the_engine_looks_for_is_on_the_page(name: str) -> None:
    assert re.search(rf"`{name}\b", PAGE)


@pytest.mark.parametrize("name", sorted(n for n in {*vars(Step), *Step.__annotations__} if n[0] != "_"))
def test_every_member_of_a_step_is_on_the_page(name: str) -> None:
    assert re.search(rf"`(step\.)?{name}\b", PAGE)
