"""How often the intervals of sim/report/statistics.py hold the true mean, by number of seeds.

    python benchmarks/intervals.py

Quoted in docs/comparing.md.
"""

from __future__ import annotations

import numpy as np

from sim.report.statistics import interval

TRIALS = 4_000
SEEDS = (3, 5, 10, 20)


def main() -> None:
    rng = np.random.default_rng(0)
    draws = {
        "normal": (lambda count: rng.normal(10, 1, count), 10.0),
        "lognormal, sigma 0.5": (lambda count: rng.lognormal(0, 0.5, count), float(np.exp(0.125))),
    }
    print("share of 95 % intervals that hold the mean; seeds:", *SEEDS)
    for name, (draw, mean) in draws.items():
        shares = [np.mean([interval(draw(count)).holds(mean) for _ in range(TRIALS)]) for count in SEEDS]
        print(f"{name}:", *(f"{share:.3f}" for share in shares))


if __name__ == "__main__":
    main()
