"""Queueing theory as an outside oracle."""

import numpy as np

from sim.core.rng import stream
from tests.worlds import LinearCost, serve

SERVICE_NS = 1000


def mean_wait_ns(utilisation: float, seed: int, requests: int = 4000) -> float:
    """Mean queue delay of one-token requests served one by one, after a warm-up of a tenth."""
    gaps = stream(seed, "theory").exponential(SERVICE_NS / utilisation, requests)
    arrivals = np.rint(np.cumsum(gaps)).astype(int)
    rows = [(int(t), 10, 1) for t in arrivals - arrivals[0]]
    record = serve(rows, "continuous", LinearCost(base=SERVICE_NS), {"max_batch_size": 1})
    waits = record.first_scheduled_ns - record.arrival_ns
    return float(waits[requests // 10 :].mean())


def test_mean_wait_follows_m_d_1() -> None:
    """Pollaczek-Khinchine for fixed service: W = rho S / (2 (1 - rho)), within 4 standard errors.

    The seeds are fixed and the replications independent, so their spread gives the error.
    """
    for utilisation in (0.3, 0.6, 0.8):
        expected = utilisation * SERVICE_NS / (2 * (1 - utilisation))
        means = [mean_wait_ns(utilisation, seed) for seed in range(12)]
        standard_error = np.std(means, ddof=1) / np.sqrt(len(means))
        assert abs(np.mean(means) - expected) < 4 * standard_error
        assert standard_error < 0.1 * expected
