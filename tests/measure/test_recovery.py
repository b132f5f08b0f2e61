"""A server of known iteration times is measured from outside; its times must come back.

On a virtual clock, so that the bounds hold on a busy machine too. docs/measuring-a-server.md has the same
check on the real clock.
"""

from __future__ import annotations

import numpy as np
import pytest

from sim.measure.measurement import Measurement
from sim.measure.table import Row, rows_of
from sim.measure.timeline import front_end_s
from tests.measure.engine import Coefficients
from tests.measure.measuring import SMALL, measure, true_us
from tests.measure.server import Faults, Server


@pytest.fixture(scope="module")
def quiet() -> tuple[Server, Measurement]:
    """A server whose tokens come exactly on time."""
    return measure()


def test_every_measured_iteration_is_within_half_a_percent(quiet):
    server, done = quiet
    assert done.complete and done.notices == []
    errors = {row: row.time_us / true_us(server.costs, row) - 1 for row in rows_of(done)}
    assert max(map(abs, errors.values())) < 0.005, errors


def test_all_three_kinds_of_iteration_are_measured(quiet):
    _, done = quiet
    kinds = {(row.num_prefill_tokens > 0, row.num_decodes > 0) for row in rows_of(done)}
    assert kinds == {(False, True), (True, False), (True, True)}
    assert any(row.prefill_cached_tokens for row in rows_of(done))
    assert max(row.num_prefill_tokens + row.num_decodes for row in rows_of(done)) == SMALL.token_budget


def test_the_front_end_delay_is_estimated(quiet):
    _, done = quiet
    delay_s = front_end_s(done.samples)
    assert delay_s == pytest.approx(0.004, abs=0.0001)


def test_the_delay_does_not_reach_the_table(quiet):
    slow_server, slow = measure(front_end_s=0.05)
    for row in rows_of(slow):
        assert row.time_us == pytest.approx(true_us(slow_server.costs, row), rel=0.005)


@pytest.mark.parametrize("jitter_s", [0.0, 0.0003])
def test_a_fit_of_the_table_gives_back_prefill_and_decode_times(jitter_s):
    server, done = measure(jitter_s=jitter_s)
    decode = fit([row for row in rows_of(done) if not row.num_prefill_tokens], decode_terms)
    mixed = fit([row for row in rows_of(done) if row.num_prefill_tokens], mixed_terms)
    for row in unseen():
        terms, coefficients = (mixed_terms, mixed) if row.num_prefill_tokens else (decode_terms, decode)
        predicted = float(np.dot(terms(row), coefficients))
        assert predicted == pytest.approx(true_us(server.costs, row), rel=0.03), row


def test_a_one_regime_server_is_measured_as_well():
    costs = Coefficients(mixed_base=6_000.0, mixed_per_sequence=0.0, mixed_per_context_token=0.05)
    _, done = measure(costs=costs)
    for row in rows_of(done):
        assert row.time_us == pytest.approx(true_us(costs, row), rel=0.01), row


def test_a_server_that_prefills_alone_has_no_mixed_rows():
    _, done = measure(faults=Faults(prefills_alone=True))
    kinds = {(row.num_prefill_tokens > 0, row.num_decodes > 0) for row in rows_of(done)}
    assert kinds == {(False, True), (True, False)}
    assert any("apart from the decodes" in notice for notice in done.notices)


def decode_terms(row: Row) -> list[float]:
    return [1, row.num_decodes, row.decode_context_tokens]


def mixed_terms(row: Row) -> list[float]:
    new, cached = row.num_prefill_tokens, row.prefill_cached_tokens
    pairs = new * cached + new * (new + 1) / 2
    return [1, new + row.num_decodes, row.num_decodes, row.decode_context_tokens, pairs]


def fit(measured: list[Row], terms) -> np.ndarray:
    """Least squares of relative errors."""
    weights = np.array([1 / row.time_us for row in measured])
    matrix = np.array([terms(row) for row in measured]) * weights[:, None]
    return np.linalg.lstsq(matrix, np.ones(len(measured)), rcond=None)[0]


def unseen() -> list[Row]:
    """Iterations between and somewhat beyond the measured ones."""
    return [
        Row(0, 0, 3, 900, 0.0),
        Row(0, 0, 6, 2_400, 0.0),
        Row(0, 0, 12, 7_000, 0.0),
        Row(200, 0, 0, 0, 0.0),
        Row(400, 0, 0, 0, 0.0),
        Row(300, 512, 0, 0, 0.0),
        Row(100, 256, 5, 2_000, 0.0),
        Row(500, 0, 8, 4_000, 0.0),
    ]
