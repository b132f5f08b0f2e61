"""The table of measured iterations: medians over repeats, written where `calibrate` finds it.

A folder holds iterations.csv (one row a measured kind of iteration), samples.csv (every repeat) and
meta.yaml (where the numbers come from). Files are written whole or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import yaml

from sim.measure.files import csv_text, write_whole
from sim.measure.measurement import Measurement
from sim.measure.timeline import Sample, front_end_s, shortest_prompt

US_PER_S = 1e6


class Row(NamedTuple):
    """One iteration: a prefill chunk over cached tokens, beside decodes reading that much context.

    `decode_context_tokens` is the sum over the decodes. A count of 0 means absent.
    """

    num_prefill_tokens: int
    prefill_cached_tokens: int
    num_decodes: int
    decode_context_tokens: int
    time_us: float


def rows_of(done: Measurement) -> list[Row]:
    """One row a kind of iteration, in order of measurement: median time, mean context of its repeats.

    A point of whose repeats half or more were left out has no row. The front-end delay is taken off
    the lone prompts; they have no row before it is known, and the one-token prompt, which gave it,
    never has one. Points that turned out to be the same batch share a row.
    """
    delay_s, shortest = front_end_s(done.samples), shortest_prompt(done.samples)
    times_us: dict[tuple[int, int, int, int], list[float]] = defaultdict(list)
    for (cell, _), repeats in _by_point(done.samples).items():
        if done.lost(cell):
            continue
        first = repeats[0]
        time_s = median(sample.time_s for sample in repeats)
        if first.kind == "ttft":
            if delay_s is None or first.num_prefill_tokens == shortest:
                continue
            time_s -= delay_s
        context = round(fmean(sample.decode_context_tokens for sample in repeats))
        batch = (first.num_prefill_tokens, first.prefill_cached_tokens, first.num_decodes, context)
        times_us[batch].append(time_s * US_PER_S)
    return [Row(*batch, round(median(times), 3)) for batch, times in times_us.items()]


def spread_pct(samples: Iterable[Sample]) -> dict[str, float]:
    """Largest relative range over the repeats of any point, in percent, by kind of sample."""
    worst: dict[str, float] = {}
    for repeats in _by_point(samples).values():
        kind, times = repeats[0].kind, [sample.time_s for sample in repeats]
        spread = 100 * (max(times) - min(times)) / median(times)
        worst[kind] = round(max(worst.get(kind, 0.0), spread), 2)
    return worst


def _by_point(samples: Iterable[Sample]) -> dict[tuple[str, int], list[Sample]]:
    points: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for sample in samples:
        points[sample.cell, sample.prefill_cached_tokens].append(sample)
    return points


def meta_of(done: Measurement) -> dict[str, Any]:
    """Provenance: what was measured, how, and how far it can be trusted."""
    delay_s = front_end_s(done.samples)
    grid, caps = done.plan.grid, done.caps
    return {
        "kind": "iterations",
        "source": "python -m sim profile",
        "url": done.target.url,
        "server": done.server or None,
        "model": done.model,
        "started": done.started,
        "complete": done.complete,
        "front_end_us": None if delay_s is None else round(delay_s * US_PER_S, 1),
        "token_budget": grid.token_budget,
        "repeats": grid.repeats,
        "window_tokens": grid.window_tokens,
        "prompt_style": done.target.prompt_style,
        "seed": done.target.seed,
        "sent": {"requests": done.meter.requests, "tokens": done.meter.tokens},
        "caps": {"requests": caps.max_requests, "tokens": caps.max_tokens, "seconds": caps.max_seconds},
        "largest_spread_over_repeats_pct": spread_pct(done.samples),
        "repeats_left_out": {cell: [r.reason for r in reasons] for cell, reasons in done.refusals.items()},
        "notices": [*done.plan.left_out, *done.notices],
    }


def write_table(folder: Path, done: Measurement) -> int:
    """Write the three files into `folder` (made if absent); the number of rows in iterations.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of(done)
    write_whole(folder / "iterations.csv", csv_text(Row._fields, rows))
    columns = (*Sample._fields[:-1], "time_us")
    values = [
        (*sample[:-2], round(sample.decode_context_tokens, 1), round(sample.time_s * US_PER_S, 3))
        for sample in done.samples
    ]
    write_whole(folder / "samples.csv", csv_text(columns, values))
    write_whole(folder / "meta.yaml", yaml.safe_dump(meta_of(done), sort_keys=False, allow_unicode=True))
    return len(rows)
