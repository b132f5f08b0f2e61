"""Bounds: no policy beats them in any world, they are met in some, and are refused where unfounded."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.batch import Batch, Chunk
from sim.core.errors import StalledError
from sim.core.protocols import Step
from sim.core.record import FINISHED, RunRecord
from sim.core.registry import POLICIES
from sim.cost import load_cost_model
from sim.report import metrics
from sim.report.bounds import Bounds, Limits, NoBounds, bounds_of
from sim.report.percentiles import describe_weighted
from sim.report.prices import Extent, PriceBook, Prices, work_of
from tests.worlds import LinearCost, World, make_trace, serve, worlds

LAW = settings(max_examples=40, deadline=None)
BUILT_IN = tuple(name for name in POLICIES if POLICIES.get(name).__module__.startswith("policies."))


def limits_of(world: World, **changes: object) -> Limits:
    limits = Limits(
        max_batch_size=world.params["max_batch_size"],
        num_blocks=world.num_blocks,
        block_size=world.block_size,
        prefix_caching=world.prefix_caching,
    )
    return dataclasses.replace(limits, **changes)  # type: ignore[arg-type]


def bounds_in(world: World, record: RunRecord, **changes: object) -> Bounds | None:
    """The bounds of a world; None where it serves nobody."""
    if not (record.status == FINISHED).any():
        with pytest.raises(NoBounds, match="no request can be served"):
            bounds_of(world.trace, world.cost, limits_of(world, **changes))
        return None
    return bounds_of(world.trace, world.cost, limits_of(world, **changes))


def assert_not_beaten(record: RunRecord, bounds: Bounds) -> None:
    rows = bounds.rows
    assert sorted(rows.tolist()) == np.flatnonzero(record.status == FINISHED).tolist()
    assert (metrics.ttft_ns(record)[rows] >= bounds.ttft_ns).all()
    assert (metrics.e2e_ns(record)[rows] >= bounds.e2e_ns).all()
    assert metrics.ttft_ns(record)[rows].mean() >= bounds.mean_ttft_ns * (1 - 1e-9)
    several = record.trace.output_tokens[rows] > 1
    assert (record.max_tbt_ns[rows] >= bounds.longest_tbt_ns)[several].all()
    found = describe_weighted(record.tbt_ns / 1e9, record.tbt_counts)
    least = describe_weighted(bounds.tbt_ns / 1e9, bounds.tbt_counts)
    assert record.tbt_counts.sum() == bounds.tbt_counts.sum()
    assert all(found[key] is None or found[key] >= (least[key] or 0) for key in found)
    first, last = metrics.span_ns(record) or (0, 0)
    assert last - first >= bounds.makespan_ns


@LAW
@given(worlds(BUILT_IN))
def test_no_built_in_policy_beats_the_bounds(world: World) -> None:
    record = world.serve()
    bounds = bounds_in(world, record)
    if bounds is not None:
        assert_not_beaten(record, bounds)


@LAW
@given(worlds(BUILT_IN), st.integers(1, 50))
def test_nor_does_one_that_swaps(world: World, swap_ns: int) -> None:
    record = world.serve(swap_ns_per_block=swap_ns)
    bounds = bounds_in(world, record)
    if bounds is not None:
        assert_not_beaten(record, bounds)


@LAW
@given(worlds(BUILT_IN), st.integers(1, 5))
def test_nor_where_completions_release_arrivals(world: World, concurrency: int) -> None:
    record = world.serve(closed_loop=concurrency)
    bounds = bounds_in(world, record, closed_loop=concurrency)
    if bounds is not None:
        assert_not_beaten(record, bounds)


@LAW
@given(worlds(BUILT_IN), st.data())
def test_nor_where_turns_follow_one_another(world: World, data: st.DataObject) -> None:
    count = len(world.trace)
    session = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    think = data.draw(st.lists(st.integers(0, 200), min_size=count, max_size=count))
    trace = dataclasses.replace(
        world.trace, session=np.array(session), think_ns=np.array(think, dtype=np.int64)
    )
    world = dataclasses.replace(world, trace=trace)
    record = world.serve()
    bounds = bounds_in(world, record)
    if bounds is not None:
        assert_not_beaten(record, bounds)


@dataclasses.dataclass
class Chaos:
    """Preempts, splits prompts and picks requests at random."""

    max_batch_size: int
    token_budget: int

    def plan(self, step: Step) -> None:
        running = list(step.running)
        if len(running) > 1 and step.rng.random() < 0.08:
            step.preempt(running[int(step.rng.integers(len(running)))])
        requests = [*step.running, *([] if step.preempted else step.waiting)]
        for place in step.rng.permutation(len(requests)):
            request = requests[place]
            most = min(request.remaining_prefill_tokens, step.budget_left)
            if not request.remaining_prefill_tokens:
                step.schedule(request)
            elif most:
                part = int(step.rng.integers(1, most + 1))
                step.schedule(request, most if step.rng.random() < 0.6 else part)


@LAW
@given(worlds(BUILT_IN), st.integers(4, 12))
def test_nor_does_one_that_does_as_it_likes(world: World, token_budget: int) -> None:
    policy = Chaos(world.params["max_batch_size"], token_budget)
    try:
        record = dataclasses.replace(world, policy=policy, params={}).serve()  # type: ignore[arg-type]
    except StalledError:
        return
    bounds = bounds_in(world, record)
    if bounds is not None:
        assert_not_beaten(record, bounds)


SHIPPED = (
    {"file": "configs/cost/rtxpro6000-llama-3.1-8b-tp1.yaml"},
    {"file": "configs/cost/a100-80gb-yi-34b-tp2.yaml"},
    # measured times that fall by a quarter from one token count to the next
    {"file": "configs/cost/h200-141gb-llama-3.3-70b-fp8-tp2.yaml"},
    {"kind": "roofline", "model": "llama-3.1-8b", "gpu": "a100-80gb"},
)


@pytest.mark.parametrize("spec", SHIPPED, ids=lambda spec: str(spec.get("file", "roofline"))[13:30])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), policy=st.sampled_from(BUILT_IN))
def test_nor_on_the_iteration_times_of_a_gpu(spec: dict[str, str], seed: int, policy: str) -> None:
    rng, count = np.random.default_rng(seed), 60
    arrivals = np.cumsum(rng.exponential(1e9 / 10 ** rng.uniform(-1, 1.5), count)).astype(int)
    prompts = np.clip(rng.lognormal(6.5, 1.2, count), 1, 12_000).astype(int)
    outputs = np.clip(rng.lognormal(4, 1, count), 1, 800).astype(int)
    trace = make_trace(list(zip(arrivals - arrivals[0], prompts, outputs, strict=True)))
    batch, blocks = int(rng.choice([4, 32, 128])), int(rng.choice([900, 3000, 20_000]))
    cost = load_cost_model(spec)
    record = serve(trace, policy, cost, {"max_batch_size": batch}, num_blocks=blocks)
    limits = Limits(max_batch_size=batch, num_blocks=blocks)
    assert_not_beaten(record, bounds_of(trace, cost, limits))


def bounds_for(rows: list[tuple[int, int, int]], cost: LinearCost, **limits: int) -> Bounds:
    return bounds_of(make_trace(rows), cost, Limits(**limits))


def test_a_request_alone_meets_them_all() -> None:
    cost = LinearCost(base=50, per_decode=7, per_context=2, per_prefill_token=9, per_pair=1)
    record = serve([(0, 10, 4)], "continuous", cost)
    bounds = bounds_for([(0, 10, 4)], cost)
    # One pass over the prompt, then decodes that read 11, 12 and 13 entries.
    assert bounds.ttft_ns.tolist() == [50 + 9 * 10 + 55] == metrics.ttft_ns(record).tolist()
    gaps = [50 + 7 + 2 * context for context in (11, 12, 13)]
    assert bounds.tbt_ns.tolist() == gaps == record.tbt_ns.tolist()
    assert bounds.makespan_ns == 195 + sum(gaps) == record.finish_ns[0]


def test_a_full_batch_meets_the_makespan() -> None:
    """Eight equal requests at once under max_batch_size 4: two batches of four, nothing idle."""
    cost = LinearCost(base=100, per_decode=3, per_prefill_token=10)
    rows = [(0, 5, 6)] * 8
    bounds = bounds_for(rows, cost, max_batch_size=4)
    record = serve(rows, "continuous", cost, {"max_batch_size": 4})
    # 12 iterations; 8 prompts of 5 tokens; 8 x 5 decodes.
    assert bounds.makespan_ns == 12 * 100 + 8 * 5 * 10 + 40 * 3 == record.finish_ns.max()


def test_memory_limits_how_many_share_an_iteration() -> None:
    """Each request holds two of the four blocks throughout: two at a time, whatever the batch size."""
    cost = LinearCost(base=100)
    rows = [(0, 6, 3)] * 4
    bounds = bounds_for(rows, cost, num_blocks=4, block_size=4)
    record = serve(rows, "continuous", cost, num_blocks=4, block_size=4)
    assert bounds.makespan_ns == 2 * 3 * 100 == record.finish_ns.max()


def test_what_arrives_late_is_worked_on_late() -> None:
    cost = LinearCost(base=10, per_prefill_token=10)
    late = [(1_000, 5, 1)] * 20
    # 20 prompts of 5 tokens from 1000 on, in one iteration if they like.
    assert bounds_for([(0, 1, 1), *late], cost).makespan_ns == 1_000 + 10 + 20 * 50


def test_the_mean_ttft_counts_the_wait_for_one_another() -> None:
    """Two prompts of 10 tokens at once: whoever is second waits, since iterations cost nothing extra."""
    cost = LinearCost(per_prefill_token=10)
    bounds = bounds_for([(0, 10, 1), (0, 10, 1)], cost)
    assert bounds.ttft_ns.tolist() == [100, 100]
    assert bounds.mean_ttft_ns == pytest.approx((100 + 200) / 2, rel=2e-4)


def test_a_shared_prefix_is_computed_once() -> None:
    cost = LinearCost(base=1, per_prefill_token=100)
    trace = make_trace(
        [(0, 8, 1), (5_000, 8, 1)], prefix_hashes=[(1, 2), (1, 3)], hash_block_tokens=4
    )
    cached = bounds_of(trace, cost, Limits(block_size=4, prefix_caching=True))
    assert cached.ttft_ns.tolist() == [801, 401]
    assert bounds_of(trace, cost, Limits(block_size=4)).ttft_ns.tolist() == [801, 801]
    record = serve(trace, "continuous", cost, block_size=4, num_blocks=10, prefix_caching=True)
    assert metrics.ttft_ns(record).tolist() == [801, 401]


def test_rejected_requests_are_not_part_of_them() -> None:
    bounds = bounds_for([(0, 5, 5), (0, 50, 5)], LinearCost(base=1), max_model_len=20)
    assert bounds.rows.tolist() == [0]


def test_figures_follow_the_summary_and_count_who_could_meet_the_slo() -> None:
    cost = LinearCost(base=50, per_prefill_token=10)
    trace = make_trace([(0, 5, 2), (0, 15, 2)])
    figures = bounds_of(trace, cost, Limits()).figures(trace, {"ttft_s": 150e-9})
    assert figures["ttft_s"]["p50"] == pytest.approx(150e-9)
    assert figures["slo_attainment"] == 0.5
    assert figures["throughput"]["requests_per_s"] == pytest.approx(2 / figures["makespan_s"])


@dataclasses.dataclass(frozen=True)
class Cliff(LinearCost):
    """Now and then an iteration takes a third of the time of its neighbours."""

    def iteration_ns(self, batch: Batch) -> int:
        full = super().iteration_ns(batch)
        return full // 3 if batch.decode_context_sum % 499 == 3 else full


def test_a_cost_model_with_holes_gets_no_bounds() -> None:
    trace = make_trace([(0, 50, 60)] * 100)
    smooth = {"base": 30_000, "per_decode": 10, "per_prefill_token": 10}
    assert bounds_of(trace, LinearCost(**smooth), Limits()).makespan_ns > 0
    with pytest.raises(NoBounds, match=r"decodes of \d+ tokens .* less than a straight line"):
        bounds_of(trace, Cliff(**smooth), Limits())


@dataclasses.dataclass(frozen=True)
class Free(LinearCost):
    def iteration_ns(self, batch: Batch) -> int:
        return 0


def test_nor_does_one_whose_iterations_take_no_time() -> None:
    with pytest.raises(NoBounds, match="takes no time"):
        bounds_for([(0, 5, 5)], Free())


COST = LinearCost(base=5_000, per_decode=70, per_context=2, per_prefill_token=90, per_pair=1, per_longest=3)


CHUNKS = st.lists(st.tuples(st.integers(1, 90), st.integers(0, 90)), max_size=3)


@given(st.integers(0, 20), st.integers(1, 300), CHUNKS)
def test_prices_lie_below_every_iteration(decodes: int, context: int, parts: list[tuple[int, int]]) -> None:
    if not decodes and not parts:
        return
    batch = Batch(decodes, decodes * context, context if decodes else 0, context if decodes else 0)
    batch = batch._replace(chunks=tuple(Chunk(*part) for part in parts))
    for prices in BOOK:
        assert prices.vector() @ np.array(work_of(batch)) <= COST.iteration_ns(batch)


def price_lists() -> list[Prices]:
    book = PriceBook(COST, Extent(sequences=24, shortest_context=1, longest_context=300, longest_prefill=200))
    wanted = ([1, 0, 0, 1, 50, 1275], [1, 1, 200, 0, 0, 0], [100, 2000, 400_000, 90, 9000, 900_000])
    return [book.best(np.array(work, dtype=float)) for work in wanted]


BOOK = price_lists()
