"""Laws of explanations, over random worlds of every policy: causes sum to the latency, to the ns."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.record import RunRecord
from sim.core.units import UNSET_NS
from sim.report import metrics
from sim.report.explain import CAUSES, Explainer
from sim.report.explain.causes import apportioned
from sim.report.explain.lives import Lives
from tests.worlds import LinearCost, World, worlds


@dataclasses.dataclass(frozen=True)
class ColdCost(LinearCost):
    """A cost model with a cold start."""

    cold_start_ns: int = 0


def run(world: World, extras: dict[str, int]) -> RunRecord:
    params = dict(world.params)
    if world.policy == "continuous":
        params["num_steps"] = extras["num_steps"]
    if world.policy == "stall_free":
        params["hybrid"] = extras["num_steps"] == 1
    cost = ColdCost(**dataclasses.asdict(world.cost), cold_start_ns=extras["cold"])
    swap = extras["swap"] if world.memory == "paged" and not world.prefix_caching else 0
    return dataclasses.replace(world, cost=cost, params=params).serve(
        record_events=True,
        front_end_ns=extras["front_end"],
        swap_ns_per_block=swap or None,
        closed_loop=extras["closed_loop"] or None,
    )


EXTRAS = st.fixed_dictionaries({
    "cold": st.sampled_from([0, 0, 70]),
    "swap": st.sampled_from([0, 0, 3]),
    "num_steps": st.sampled_from([1, 1, 3]),
    "closed_loop": st.sampled_from([0, 0, 2]),
    "front_end": st.sampled_from([0, 0, 12]),
})  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(worlds(), EXTRAS)
def test_token_times_follow_from_the_events(world: World, extras: dict[str, int]) -> None:
    record = run(world, extras)
    assert record.token_times is not None and record.events is not None
    lives = Lives(record)
    for row in range(len(record.trace)):
        life = lives.of(row)
        times = [] if life is None else record.events.end_ns[life.tokens].tolist()
        assert times == record.token_times.get(row, [])


@settings(max_examples=150, deadline=None)
@given(worlds(), EXTRAS)
def test_causes_sum_to_every_latency_exactly(world: World, extras: dict[str, int]) -> None:
    record = run(world, extras)
    explainer = Explainer(record)
    ttft = metrics.ttft_ns(record)
    lengths = []
    for row in np.flatnonzero(ttft != UNSET_NS).tolist():
        first, *gaps = explainer.request(record.trace.id_of(row), top=100)
        assert first.length_ns == ttft[row]
        assert len(gaps) == record.trace.output_tokens[row] - 1
        lengths += [gap.length_ns for gap in gaps]
        for one in (first, *gaps):
            assert sum(part.ns for part in one.parts) == one.length_ns
            assert all(part.ns > 0 and part.cause in CAUSES for part in one.parts)
            assert all(part.by != one.request_id for part in one.parts)
    assert sorted(lengths) == np.repeat(record.tbt_ns, record.tbt_counts).tolist()


@settings(max_examples=100, deadline=None)
@given(worlds(), EXTRAS, st.integers(1, 5), st.sampled_from([0, 50, 90, 99, 100]))
def test_worst_and_percentiles_are_those_of_the_run(
    world: World, extras: dict[str, int], top: int, percent: int
) -> None:
    record = run(world, extras)
    explainer = Explainer(record)
    ttft = np.sort(metrics.ttft_ns(record)[record.first_token_ns != UNSET_NS])
    if len(ttft):
        assert [one.length_ns for one in explainer.worst("ttft", top)] == ttft[::-1][:top].tolist()
        at, tail = explainer.percentile("ttft", percent)
        assert at.length_ns == min(ttft[ttft >= np.percentile(ttft, percent) - 1e-6])
        assert sum(ns for _, ns in tail.causes) == tail.total_ns
    if len(record.tbt_ns):
        assert explainer.worst("tbt", top)[0].length_ns == record.tbt_ns[-1]
        gaps = np.repeat(record.tbt_ns, record.tbt_counts)
        at, tail = explainer.percentile("tbt", percent)
        assert at.length_ns == min(gaps[gaps >= np.percentile(gaps, percent) - 1e-6])
        assert tail.count == (gaps >= at.length_ns).sum()
        assert tail.total_ns == gaps[gaps >= at.length_ns].sum() == sum(ns for _, ns in tail.causes)


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**6), min_size=1).filter(any))
def test_nothing_is_lost_in_dividing(total: int, weights: list[int]) -> None:
    parts = apportioned(total, weights)
    assert sum(parts) == total
    fair = [total * weight / sum(weights) for weight in weights]
    assert all(abs(part - share) <= 1 + 1e-6 * share for part, share in zip(parts, fair, strict=True))
