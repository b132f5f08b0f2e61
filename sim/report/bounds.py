"""Bounds: what no policy can beat on a trace, under given limits, with iteration times of one cost model.

Owns the figures: lower bounds on TTFT, TBT, E2E and makespan, upper bounds on throughput, goodput,
SLO attainment and the rate that can be sustained. docs/bounds.md derives each and says when a bound
is met. Prices of work are prices.py's, the work of a trace is demand.py's. Pure: simulates nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.protocols import CostModel
from sim.core.trace import Trace
from sim.core.units import NS_PER_S
from sim.report.demand import Demand, Limits, demand_of
from sim.report.objectives import Limits as Objectives
from sim.report.objectives import judge
from sim.report.percentiles import describe, describe_weighted
from sim.report.prices import Extent, NoBounds, PriceBook, Prices

__all__ = ["Bounds", "Limits", "NoBounds", "bounds_of"]

Rows = NDArray[np.int64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """One entry a served request in `rows` order; times in ns."""

    rows: Rows
    """Rows of the trace that are served, by the earliest time each can arrive."""
    ttft_ns: Rows
    """No first token comes sooner after the arrival."""
    e2e_ns: Rows
    """No last token does."""
    longest_tbt_ns: Rows
    """No request's longest gap is shorter; 0 with one output token."""
    tbt_ns: Rows
    """Least gaps of all requests' tokens, ascending, and how many there are of each."""
    tbt_counts: Rows
    mean_ttft_ns: float
    """No mean is below; above the mean of `ttft_ns` where requests must wait for one another."""
    makespan_ns: int
    """From the first arrival to the last token."""
    requests_per_s: float
    """No rate of such requests can be sustained for ever above this."""
    output_tokens: int
    prompt_tokens: int

    def figures(
        self,
        trace: Trace,
        slo: Objectives | None = None,
        slo_classes: Mapping[str, Objectives] | None = None,
    ) -> dict[str, Any]:
        """The bounds as a summary (sim.report.metrics): the keys of it that are bounded."""
        seconds = self.makespan_ns / NS_PER_S
        ttft = describe(self.ttft_ns / NS_PER_S)
        ttft["mean"] = self.mean_ttft_ns / NS_PER_S
        judged = self._judged(trace, slo, slo_classes)
        tokens = self.output_tokens + self.prompt_tokens
        return {
            "ttft_s": ttft,
            "tbt_s": describe_weighted(self.tbt_ns / NS_PER_S, self.tbt_counts),
            "e2e_s": describe(self.e2e_ns / NS_PER_S),
            "makespan_s": seconds,
            "throughput": {
                "requests_per_s": len(self.rows) / seconds,
                "output_tokens_per_s": self.output_tokens / seconds,
                "total_tokens_per_s": tokens / seconds,
            },
            "goodput": judged.num_met / seconds,
            "slo_attainment": judged.attainment,
            "sustainable_requests_per_s": self.requests_per_s,
        }

    def _judged(
        self, trace: Trace, slo: Objectives | None, slo_classes: Mapping[str, Objectives] | None
    ) -> Any:
        """Which requests could meet their objectives at all."""

        def by_row(values: Vector | Rows) -> Vector:
            column = np.full(len(trace), np.nan)
            column[self.rows] = values / NS_PER_S
            return column

        gaps = np.maximum(trace.output_tokens[self.rows] - 1, 1)
        columns = {
            "ttft_s": by_row(self.ttft_ns),
            "tbt_s": by_row(self.longest_tbt_ns),
            "tpot_s": by_row((self.e2e_ns - self.ttft_ns) / gaps),
            "e2e_s": by_row(self.e2e_ns),
        }
        served = np.zeros(len(trace), dtype=bool)
        served[self.rows] = True
        labels = None if trace.slo_class is None else np.array(trace.slo_class, dtype=object)
        return judge(served, columns, slo, slo_classes, labels)


def bounds_of(trace: Trace, cost: CostModel, limits: Limits) -> Bounds:
    """The bounds for every policy that keeps `limits` on `trace` with iteration times of `cost`.

    NoBounds if no request can be served, or if the cost model does not allow straight lines below it
    (see prices.py).
    """
    demand = demand_of(trace, limits)
    if not len(demand):
        raise NoBounds("no bounds: no request can be served")
    lists = _price_lists(cost, demand, limits)
    first = np.max([demand.first_token_work() @ prices.vector() for prices in lists], axis=0)
    gap = np.max([prices.iteration + demand.later_token_ns(prices) for prices in lists], axis=0)
    gap[0] = 0.0
    ttft_ns, gap_ns = _whole(first) + limits.front_end_ns, _whole(gap)
    reached = np.cumsum(gap_ns)
    begun = demand.prompt_tokens
    ended = demand.prompt_tokens + demand.output_tokens - 1
    e2e_ns = ttft_ns + reached[ended] - reached[begun]
    tbt_ns, counts = _gaps(gap_ns, begun, ended)
    alone_ns = int(_ends_alone(trace, demand, e2e_ns).max())
    together_ns = max(_work_ends_ns(demand, prices) for prices in lists)
    endless_ns = max(_work_ns(demand, prices, endless=True)[0] for prices in lists)
    queued_ns = max(_queued_mean_ns(demand, prices) for prices in lists)
    return Bounds(
        rows=demand.rows,
        ttft_ns=ttft_ns,
        e2e_ns=e2e_ns,
        longest_tbt_ns=_longest_gaps(gap_ns, begun, ended),
        tbt_ns=tbt_ns,
        tbt_counts=counts,
        mean_ttft_ns=max(float(ttft_ns.mean()), queued_ns + limits.front_end_ns),
        makespan_ns=max(alone_ns, together_ns + limits.front_end_ns),
        requests_per_s=float(len(demand) * NS_PER_S / endless_ns),
        output_tokens=int(demand.output_tokens.sum()),
        prompt_tokens=int(demand.prompt_tokens.sum()),
    )


def _price_lists(cost: CostModel, demand: Demand, limits: Limits) -> list[Prices]:
    """The price lists that say most about all the work, prompts of several lengths, and lone decodes."""
    first = demand.first_token_work()
    contexts = np.quantile(demand.prompt_tokens + demand.output_tokens - 1, (0.1, 0.5, 0.9))
    order = np.argsort(first[:, 5], kind="stable")
    typical = [first[order[place]] for place in np.linspace(0, len(order) - 1, 7).astype(int)]
    lone = [np.array([1, 1, context, 0, 0, 0], dtype=np.float64) for context in contexts]
    total = demand.total_work()
    in_long_run = total.copy()
    in_long_run[0] = demand.iterations_from(endless=True)[0]
    extent = Extent(
        sequences=min(limits.max_batch_size or len(demand), len(demand)),
        shortest_context=int(demand.prompt_tokens.min()) + 1,
        # static pads every decode to the longest prompt
        longest_context=int(demand.prompt_tokens.max() + demand.output_tokens.max()),
        longest_prefill=demand.longest,
    )
    points = {int(work[4]) for work in typical} | {int(context) for context in contexts}
    book = PriceBook(cost, extent, sorted(points))
    wanted = np.unique(np.array([total, in_long_run, *typical, *lone]), axis=0)
    return [book.best(work) for work in wanted]


def _whole(times: Vector) -> Rows:
    """The least whole ns at or above each bound, since times are whole."""
    return np.ceil(times - 1e-9).astype(np.int64)


def _gaps(gap_ns: Rows, begun: Rows, ended: Rows) -> tuple[Rows, Rows]:
    """All gaps by length: one of gap_ns[context] for each context after `begun` up to `ended`."""
    size = len(gap_ns) + 1
    steps = np.bincount(begun + 1, minlength=size) - np.bincount(ended + 1, minlength=size)
    occurs = np.cumsum(steps)[: len(gap_ns)]
    values, place = np.unique(gap_ns, return_inverse=True)
    counts = np.bincount(place, weights=occurs).astype(np.int64)
    return values[counts > 0], counts[counts > 0]


def _longest_gaps(gap_ns: Rows, begun: Rows, ended: Rows) -> Rows:
    """The gap before the last token, where context is longest; 0 with one output token."""
    return np.where(ended > begun, np.maximum(gap_ns[ended], gap_ns[np.minimum(begun + 1, ended)]), 0)


def _ends_alone(trace: Trace, demand: Demand, e2e_ns: Rows) -> Rows:
    """When each request's last token can appear at the earliest if it had the replica to itself."""
    if trace.session is None or demand.limits.closed_loop is not None:
        return demand.earliest_ns + e2e_ns
    duration = np.zeros(len(trace), dtype=np.int64)
    duration[demand.rows] = e2e_ns
    think = np.zeros_like(duration) if trace.think_ns is None else trace.think_ns
    ended = np.zeros(len(trace), dtype=np.int64)
    latest: dict[int, int] = {}
    for row, session in enumerate(trace.session.tolist()):
        start = latest[session] + int(think[row]) if session in latest else int(trace.arrival_ns[row])
        latest[session] = start + int(duration[row])
        ended[row] = latest[session]
    return ended[demand.rows]


def _work_ns(demand: Demand, prices: Prices, *, endless: bool = False) -> Vector:
    """Least time in iterations for the requests from each one on."""
    own = _own_work_ns(demand, prices)
    later = np.cumsum(demand.later_token_ns(prices))
    own += later[demand.prompt_tokens + demand.output_tokens - 1] - later[demand.prompt_tokens]
    from_each: Vector = np.cumsum(own[::-1])[::-1]
    return from_each + prices.iteration * demand.iterations_from(endless=endless)


def _own_work_ns(demand: Demand, prices: Prices) -> Vector:
    """Price of what each first token adds to the work, without iterations."""
    work: Vector = prices.prefill + prices.token * demand.new_tokens + prices.pair * demand.new_pairs
    return work


def _work_ends_ns(demand: Demand, prices: Prices) -> int:
    """When all is done at the earliest: what arrives from some time on is worked on after it."""
    return int(np.ceil((demand.earliest_ns + _work_ns(demand, prices)).max() - 1e-9))


def _queued_mean_ns(demand: Demand, prices: Prices) -> float:
    """Least mean TTFT of one machine that does first tokens only, shortest remaining work first.

    That order is optimal for the sum of completion times with arrivals and free preemption. 0 where
    arrivals depend on completions: a policy could then delay the arrivals themselves.
    """
    if demand.arrivals_depend:
        return 0.0
    arrivals, works = demand.earliest_ns.tolist(), _own_work_ns(demand, prices).tolist()
    waiting: list[float] = []
    now, total = 0.0, 0.0
    for place, (arrival, work) in enumerate(zip(arrivals, works, strict=True)):
        now = max(now, float(arrival))
        heapq.heappush(waiting, work)
        until = arrivals[place + 1] if place + 1 < len(arrivals) else float("inf")
        while waiting and now < until:
            done = min(waiting[0], until - now)
            now += done
            if done == waiting[0]:
                heapq.heappop(waiting)
                total += now
            else:
                heapq.heapreplace(waiting, waiting[0] - done)
    return float(total - sum(arrivals)) / len(arrivals)
