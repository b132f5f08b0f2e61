"""What goes wrong while measuring a server."""

from __future__ import annotations

from sim.core.errors import UserError


class MeasureError(UserError):
    """The server cannot be measured as asked; the message says what it did and what to change."""


class CapReached(Exception):
    """A cap of the measurement was met. The measurement ends early and keeps its finished rows."""
