"""The simulation proper: SimPy processes, the scheduling step, and the exact jump."""

from sim.engine.settings import EngineSettings
from sim.engine.simulate import simulate

__all__ = ["EngineSettings", "simulate"]
