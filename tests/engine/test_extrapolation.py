"""How much of a run lay outside what the cost model was measured on is counted, jumps included."""

import dataclasses
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.batch import Batch
from sim.core.registry import POLICIES
from sim.cost.validity import EVERYTHING, ValidRange
from sim.engine.extent import stays_inside
from tests.worlds import STANDARD, LinearCost, World, serve, worlds


class Ranged(LinearCost):
    """Measured up to a total decode context of 20 tokens, and chunks of 4."""

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        later = [batch.after(i) if not batch.chunks else batch for i in range(iterations)]
        return sum(b.decode_context_sum > 20 or b.prefill_tokens > 4 for b in later)


@settings(max_examples=60, deadline=None)
@given(worlds(STANDARD))
def test_a_jump_counts_as_its_iterations_would(world: World) -> None:
    object.__setattr__(world, "cost", Ranged(base=5, per_decode=1))
    fast, reference = world.serve("fast"), world.serve("reference")
    assert fast.extrapolated_iterations == reference.extrapolated_iterations


def test_the_count_and_its_notice_by_hand() -> None:
    """Prompt 5 is outside; decodes at contexts 6 ... 22: the last two of 17 are."""
    record = serve([(0, 5, 18)], "continuous", Ranged(base=5))
    assert record.extrapolated_iterations == 3
    assert record.notices == ["16.7% of the iterations lie outside the range the cost model was measured on"]


def test_a_model_that_cannot_tell_is_not_counted() -> None:
    assert serve([(0, 5, 18)], "continuous", LinearCost(base=5)).extrapolated_iterations is None


@dataclass(frozen=True)
class Boxed(LinearCost):
    """Measured inside `box`; remembers every batch it was asked about."""

    box: ValidRange = EVERYTHING
    asked: list[Batch] = field(default_factory=list)

    def iteration_ns(self, batch: Batch) -> int:
        self.asked.append(batch)
        return super().iteration_ns(batch)

    def outside(self, batch: Batch, iterations: int = 1) -> int:
        return self.box.outside(batch, iterations)


@settings(max_examples=150, deadline=None)
@given(worlds(("stall_free", "vllm_v1")), st.integers(4, 60), st.integers(4, 40))
def test_where_the_largest_batches_are_inside_all_are(world: World, context: int, tokens: int) -> None:
    cost = Boxed(base=5, per_decode=1, box=ValidRange(6, context, tokens, context))
    policy = POLICIES.get(world.policy)(**world.params)
    record = dataclasses.replace(world, cost=cost).serve("reference")
    outside = sum(cost.box.outside(batch) for batch in cost.asked)
    assert record.extrapolated_iterations == outside
    if stays_inside(cost, policy, world.trace):
        assert outside == 0
