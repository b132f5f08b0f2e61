"""A server of known iteration times is measured from outside; its times must come back.

On a virtual clock, so that the bounds hold on a busy machine too. docs/measuring-a-server.md has the same
check on the real clock.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.cost.calibration import Options, calibrate
from sim.measure.measurement import Measurement
from sim.measure.table import rows_of, write_table
from sim.measure.timeline import front_end_s
from tests.measure.engine import Coefficients
from tests.measure.measuring import SMALL, measure, true_us
from tests.measure.recovery import LIMIT_PCT, compare
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


@pytest.mark.parametrize(("jitter_s", "repeats"), [(0.0, 1), (0.0003, 3)])
def test_calibrating_the_table_gives_back_prefill_and_decode_times(jitter_s, repeats, tmp_path):
    server, done = measure(replace(SMALL, repeats=repeats), jitter_s=jitter_s)
    write_table(tmp_path, done)
    fitted = calibrate([tmp_path], Options()).model
    for case, meant_us, fitted_us in compare(fitted, server.costs):
        assert fitted_us == pytest.approx(meant_us, rel=LIMIT_PCT / 100), case


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


@pytest.mark.parametrize("style", ["tokens", "text"])
def test_tokens_that_the_server_adds_are_counted(style):
    server, done = measure(target={"prompt_style": style}, faults=Faults(own_tokens=1))
    rows = rows_of(done)
    assert {33, 129} <= {row.num_prefill_tokens for row in rows if not row.num_decodes}
    for row in rows:
        assert row.time_us == pytest.approx(true_us(server.costs, row), rel=0.01), row
    assert "prompt of 512: no row: the server counts 513 tokens, more than --token-budget" in done.notices
