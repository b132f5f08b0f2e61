"""Plain tables of measured iterations, told apart by their columns.

    iterations   num_prefill_tokens, prefill_cached_tokens, num_decodes, decode_context_tokens, time_us
    prefill      prompt_tokens, batch, time
    decode       batch, context, time
    whole-model  model, hardware, prompt_size, batch_size, token_size, prompt_time, token_time (ms),
                 tensor_parallel: the format of Mutinifni/splitwise-sim (MIT)

`time` is a column time_us, time_ms or time_s. decode_context_tokens is the sum over the decodes,
context is of each. Several rows of the whole-model table may repeat a measurement: the median counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from sim.core.errors import ProfileError, suggestion
from sim.cost.calibration.rows import MeasuredRow, batch_of
from sim.cost.csv_table import CsvTable, check_distinct, read_csv

ITERATION_COLUMNS = ("num_prefill_tokens", "prefill_cached_tokens", "num_decodes", "decode_context_tokens")
PREFILL_COLUMNS = ("prompt_tokens", "batch")
DECODE_COLUMNS = ("batch", "context")
WHOLE_MODEL_COLUMNS = (
    "model",
    "hardware",
    "prompt_size",
    "batch_size",
    "token_size",
    "prompt_time",
    "token_time",
    "tensor_parallel",
)
TIME_COLUMNS = {"time_us": 1.0, "time_ms": 1e3, "time_s": 1e6}
MS_US = 1e3

Wanted = tuple[str | None, str | None, int | None]
"""Model, GPU and tensor_parallel to take from a table of several."""


def read_table(path: Path, wanted: Wanted) -> list[MeasuredRow]:
    """The rows of one CSV file; ProfileError names file, row and value of what is wrong."""
    header = read_csv(path, ()).columns
    if "prompt_time" in header or "token_time" in header:
        return _whole_model_rows(read_csv(path, WHOLE_MODEL_COLUMNS), wanted)
    time = next((name for name in TIME_COLUMNS if name in header), None)
    if time is None:
        raise ProfileError(
            f"{path}: column 'time_us' (or time_ms, time_s) is missing: {suggestion('time_us', header)}"
        )
    if "num_decodes" in header or "num_prefill_tokens" in header:
        return _iteration_rows(read_csv(path, (*ITERATION_COLUMNS, time)), time)
    if "prompt_tokens" in header:
        return _prefill_rows(read_csv(path, (*PREFILL_COLUMNS, time)), time)
    return _decode_rows(read_csv(path, (*DECODE_COLUMNS, time)), time)


def _iteration_rows(table: CsvTable, time: str) -> list[MeasuredRow]:
    points = list(zip(*(table.integers(name) for name in ITERATION_COLUMNS), strict=True))
    check_distinct(table, points, "iteration")
    rows = []
    for row, (tokens, cached, decodes, context), time_us in _timed(table, points, time):
        if (decodes == 0) != (context == 0) or (tokens == 0 and (cached > 0 or decodes == 0)):
            raise table.error(
                row,
                f"{tokens} prefill tokens over {cached}, {decodes} decodes over {context} is no batch: "
                "a part that is absent has 0 in both of its columns",
            )
        batch = batch_of(decodes, context, 1 if tokens else 0, tokens, cached)
        rows.append(MeasuredRow(batch, time_us, f"{table.path.name} row {row}"))
    return rows


def _prefill_rows(table: CsvTable, time: str) -> list[MeasuredRow]:
    points = list(zip(*(table.integers(name, 1) for name in PREFILL_COLUMNS), strict=True))
    check_distinct(table, points, "prefill")
    return [
        MeasuredRow(batch_of(0, 0, batch, tokens), time_us, f"{table.path.name} row {row}")
        for row, (tokens, batch), time_us in _timed(table, points, time)
    ]


def _decode_rows(table: CsvTable, time: str) -> list[MeasuredRow]:
    points = list(zip(*(table.integers(name, 1) for name in DECODE_COLUMNS), strict=True))
    check_distinct(table, points, "decode")
    return [
        MeasuredRow(batch_of(batch, batch * context), time_us, f"{table.path.name} row {row}")
        for row, (batch, context), time_us in _timed(table, points, time)
    ]


def _timed(
    table: CsvTable, points: Sequence[tuple[int, ...]], time: str
) -> list[tuple[int, tuple[int, ...], float]]:
    return list(zip(table.rows, points, table.times(time, TIME_COLUMNS[time]), strict=True))


def _whole_model_rows(table: CsvTable, wanted: Wanted) -> list[MeasuredRow]:
    """Prefill of `batch_size` prompts, and the mean decode of `token_size` tokens after them."""
    chosen = _choose(table, wanted)
    names = ("prompt_size", "batch_size", "token_size")
    points = list(zip(*(table.integers(name, 1) for name in names), strict=True))
    prompt_us, token_us = table.times("prompt_time", MS_US), table.times("token_time", MS_US)
    prefills: dict[tuple[int, int], list[tuple[float, int]]] = {}
    decodes: dict[tuple[int, int, int], list[tuple[float, int]]] = {}
    for place in chosen:
        prompt, batch, tokens = points[place]
        prefills.setdefault((prompt, batch), []).append((prompt_us[place], table.rows[place]))
        decodes.setdefault((prompt, batch, tokens), []).append((token_us[place], table.rows[place]))
    rows = []
    for (prompt, batch), found in prefills.items():
        where = f"{table.path.name} row {found[0][1]}"
        rows.append(MeasuredRow(batch_of(0, 0, batch, prompt), median(time for time, _ in found), where))
    for (prompt, batch, tokens), found in decodes.items():
        # Mean context of the steps that make tokens 2 .. n.
        context = batch * prompt + batch * (tokens + 1) // 2
        where = f"{table.path.name} row {found[0][1]}"
        rows.append(MeasuredRow(batch_of(batch, context), median(time for time, _ in found), where))
    return rows


def _choose(table: CsvTable, wanted: Wanted) -> list[int]:
    """Places of the rows of one (model, hardware, tensor_parallel); ProfileError if none or several."""
    columns = (table.columns["model"], table.columns["hardware"], table.integers("tensor_parallel", 1))
    combinations = list(zip(*columns, strict=True))
    matching = [
        combination
        for combination in sorted(set(combinations))
        if all(want is None or _alike(want, have) for want, have in zip(wanted, combination, strict=True))
    ]
    if len(matching) != 1:
        held = sorted(set(combinations))
        listed = "; ".join(f"{model} on {gpu} with tensor_parallel {ranks}" for model, gpu, ranks in held)
        state = "no rows match" if not matching else "several match"
        raise ProfileError(
            f"{table.path}: {state} the model, gpu and tensor_parallel given; it holds: {listed}"
        )
    return [place for place, combination in enumerate(combinations) if combination == matching[0]]


def _alike(want: object, have: object) -> bool:
    """Equal but for case and punctuation: llama-2-70b is llama2-70b."""
    left, right = (re.sub("[^a-z0-9]", "", str(name).lower()) for name in (want, have))
    return left == right
