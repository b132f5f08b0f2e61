"""Calibration: from measurements to a cost model file, with its errors on rows it never saw.

    rows.py             MeasuredRow: one iteration and how long it took
    tables.py           plain CSV tables: iterations, prefill, decode, whole-model
    composed.py         layer-wise profile folders as whole iterations
    aiconfigurator.py   the optional package, sampled on a grid
    fit.py              coefficients from rows
    heldout.py          errors by whole grid lines
    sources.py          the above in order; what `python -m sim calibrate` calls
"""

from sim.cost.calibration.sources import Calibration, Options, calibrate, write_cost_file

__all__ = ["Calibration", "Options", "calibrate", "write_cost_file"]
