"""Metrics by SLO class and by client."""

import numpy as np

from sim.core.trace import Trace
from sim.report.metrics import summarize
from tests.worlds import LinearCost, serve

ROWS = np.array([(0, 1, 2), (0, 1, 2), (0, 1, 5), (0, 1, 1)])


def summary(**columns: list[str | None]) -> dict:
    trace = Trace("test", *(ROWS[:, k].astype(np.int64) for k in range(3)), **columns)
    record = serve(trace, "continuous", LinearCost(base=10**9), {"max_batch_size": 1})
    return summarize(record, slo={"ttft_s": 3.0}, provenance={}, slo_classes={"batch": {"e2e_s": 100.0}})


def test_each_class_has_its_own_latencies_and_attainment() -> None:
    """One at a time, a second an iteration: first tokens at 1, 3, 5 and 10 s."""
    by_class = summary(slo_class=["chat", "chat", "batch", None])["by_slo_class"]
    assert list(by_class) == ["(none)", "batch", "chat"]
    assert by_class["chat"]["num_requests"] == 2
    assert by_class["chat"]["ttft_s"]["mean"] == 2.0
    assert by_class["chat"]["slo_attainment"] == 1.0
    assert by_class["batch"]["ttft_s"]["max"] == 5.0
    assert by_class["batch"]["slo_attainment"] == 1.0
    assert by_class["(none)"]["slo_attainment"] == 0.0
    assert by_class["(none)"]["max_tbt_s"]["mean"] is None


def test_groups_add_up_to_the_whole() -> None:
    whole = summary(client=["a", "b", "a", "b"])
    groups = whole["by_client"].values()
    assert sum(group["num_output_tokens"] for group in groups) == whole["num_output_tokens"]
    assert sum(group["num_finished"] for group in groups) == whole["num_finished"]


def test_without_the_columns_there_is_nothing() -> None:
    whole = summary()
    assert whole["by_slo_class"] is None
    assert whole["by_client"] is None
