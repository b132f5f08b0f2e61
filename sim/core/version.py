"""The simulator's version, as packaging, reports and `--version` give it."""

__version__ = "0.1.0"
