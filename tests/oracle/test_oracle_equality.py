"""The package equals the independent oracle, token by token to the nanosecond, in thousands of random worlds.

ORACLE_CASES=n in the environment sets the number of worlds in each of the 20 cells (policy x memory x ties).
"""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.versus import POLICY_NAMES, LinearCost, World, differences, force_tie, random_case

CASES = int(os.environ.get("ORACLE_CASES", "150"))


@pytest.mark.parametrize("ties", [True, False], ids=["ties", "fine times"])
@pytest.mark.parametrize("memory", ["paged", "reserve"])
@pytest.mark.parametrize("name", POLICY_NAMES)
def test_package_equals_oracle_in_random_worlds(name: str, memory: str, ties: bool) -> None:
    seed = [POLICY_NAMES.index(name), memory == "paged", ties]
    rng = np.random.default_rng([int(s) for s in seed])
    for _ in range(CASES):
        requests, world = random_case(rng, ties=ties, memory=memory)
        if ties:
            requests = force_tie(rng, requests, name, world)
        for mode in ("reference", "fast"):
            found = differences(requests, name, world, mode)
            assert not found, f"{mode}, {requests}, {world}:\n" + "\n".join(found)


triples = st.tuples(st.integers(0, 8), st.integers(1, 12), st.integers(1, 8))
costs = st.builds(
    LinearCost, st.integers(1, 4), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)
)
worlds = st.builds(
    World,
    token_budget=st.integers(1, 12),
    max_batch_size=st.integers(1, 5),
    num_blocks=st.integers(1, 25),
    block_size=st.integers(1, 4),
    memory=st.sampled_from(["paged", "reserve"]),
    watermark=st.sampled_from([0.0, 0.2, 0.5]),
    max_model_len=st.sampled_from([None, 12]),
    max_wait_ns=st.integers(0, 5),
    cost=costs,
)


@pytest.mark.parametrize("mode", ["reference", "fast"])
@pytest.mark.parametrize("name", POLICY_NAMES)
@settings(deadline=None)
@given(requests=st.lists(triples, min_size=1, max_size=8).map(sorted), world=worlds)
def test_package_equals_oracle_in_small_worlds(
    name: str, mode: str, requests: list[tuple[int, int, int]], world: World
) -> None:
    """Small numbers make ties and full caches the rule, and let hypothesis shrink to a minimal case."""
    assert differences(requests, name, world, mode) == []
