"""Statistics: intervals that hold what they promise, pairs that are paired, and sentences that fit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.report.statistics import differences, interval, long_form, means, paired, t_factor
from sim.report.verdicts import verdict, verdicts

VALUES = st.lists(st.floats(0.1, 100), min_size=2, max_size=12)


@pytest.mark.parametrize("count", [2, 3, 5, 31, 32, 60, 500])
def test_few_seeds_widen_an_interval_as_student_has_it(count: int) -> None:
    expected = stats.t.ppf(0.975, count - 1) / stats.norm.ppf(0.975) * np.sqrt(count / (count - 1))
    assert t_factor(count) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_an_interval_holds_the_mean_about_95_times_in_100(count: int) -> None:
    rng = np.random.default_rng(0)
    held = [interval(rng.normal(10, 1, count)).holds(10) for _ in range(600)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


@given(VALUES)
def test_an_interval_is_around_its_mean(values: list[float]) -> None:
    found = interval(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.low <= found.mean + 1e-9 and found.mean <= found.high + 1e-9


def test_one_seed_has_no_interval_and_shows_nothing() -> None:
    found = paired([1.0], [5.0])
    assert found.difference.low is None and found.ratio.high is None
    assert not found.shown
    assert interval([3.0]) == interval([3.0]) and interval([3.0]).mean == 3.0


@given(VALUES, st.integers(0, 9))
def test_turned_is_what_the_other_way_round_finds(values: list[float], seed: int) -> None:
    others = np.random.default_rng(seed).lognormal(0, 1, len(values))
    turned, again = paired(values, others).turned(), paired(others, values)
    assert turned.ratio.mean == pytest.approx(again.ratio.mean)
    assert turned.difference.low == pytest.approx(again.difference.low, abs=1e-9)
    assert turned.shown == again.shown


def test_pairing_shows_a_small_difference_that_seeds_would_hide() -> None:
    """Policy a is 1 % lower in every seed, while seeds differ tenfold."""
    baseline = np.geomspace(1, 10, 8)
    found = paired(0.99 * baseline, baseline)
    assert found.shown and found.ratio.high == pytest.approx(0.99)
    assert not interval(0.99 * baseline).low > interval(baseline).high


def test_zero_somewhere_leaves_the_difference() -> None:
    found = paired([0.0, 1.0, 0.0], [5.0, 6.0, 5.0])
    assert found.ratio is None and found.difference.mean == -5 and found.shown


def frame() -> pd.DataFrame:
    rows = [
        {
            "policy": policy,
            "seed": seed,
            "tbt_s.p99": factor * (1 + seed / 10),
            "goodput": None if seed else 1.0,
        }
        for seed in range(3)
        for policy, factor in (("a", 1.0), ("b", 2.0))
    ]
    return pd.DataFrame(rows)


def test_tables_have_a_row_for_each_policy_and_metric() -> None:
    table = means(frame()).set_index(["policy", "metric"])
    assert table.loc[("b", "tbt_s.p99"), "mean"] == pytest.approx(2.2)
    assert table.loc[("a", "goodput"), "seeds"] == 1
    assert np.isnan(table.loc[("a", "goodput"), "low"])
    pairs = differences(frame(), ["tbt_s.p99"]).set_index(["policy", "baseline"])
    assert pairs.loc[("a", "b"), "ratio"] == pytest.approx(0.5)
    assert pairs.loc[("b", "a"), "ratio_high"] == pytest.approx(2)
    assert pairs["shown"].all()


def test_the_long_form_has_a_row_for_each_number() -> None:
    long = long_form(frame())
    assert list(long.columns) == ["policy", "seed", "metric", "value"]
    assert len(long) == 6 * 2
    found = long[(long.policy == "b") & (long.seed == 2) & (long.metric == "tbt_s.p99")]
    assert found["value"].tolist() == [2.4]


BASE = np.array([1.0, 1.2, 0.9, 1.1, 1.0, 1.3])
NOISE = np.array([1.0, 1.02, 0.98, 1.01, 0.99, 1.0])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (BASE / 3.1 * NOISE, "new's p99 TBT is 3.1 times lower than old's [3.0"),
        (BASE * 3.1 * NOISE, "new's p99 TBT is 3.1 times higher than old's [3.0"),
        (BASE * 0.9, "new's p99 TBT is 10 % lower than old's [10, 10 %]"),
        (BASE * 1.021, "new's p99 TBT is 2.1 % higher than old's [2.1, 2.1 %]"),
        (BASE * NOISE, "p99 TBT: no difference shown; new"),
        (BASE, "new's p99 TBT is the same as old's"),
        (BASE * 0, "new's p99 TBT is 1.08 s lower than old's [0.9"),
    ],
)
def test_verdicts_say_how_much_and_how_sure(values: np.ndarray, said: str) -> None:
    assert verdict(paired(values, BASE), "new", "old", "p99 TBT", "s").startswith(said)


def test_verdicts_of_one_seed_claim_no_interval() -> None:
    said = verdict(paired([2.0], [1.0]), "new", "old", "p99 TBT")
    assert said == "new's p99 TBT is 2 times higher than old's"


def test_there_is_a_sentence_for_each_metric_both_have() -> None:
    found = verdicts(frame(), "b")
    assert list(found) == ["a"]
    assert found["a"] == ["a's p99 TBT is 2 times lower than b's [2, 2]", "a's goodput is the same as b's"]
