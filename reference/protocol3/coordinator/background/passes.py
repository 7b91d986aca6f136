"""What a background loop reports about itself, for readiness (HTTP-092, RCV-031)."""

from __future__ import annotations

from typing import Protocol


class Passes(Protocol):
    """Told of every pass of one loop."""

    def succeeded(self, now: float) -> None:
        """A whole pass went through at this monotonic instant."""

    def unavailable(self) -> None:
        """A pass failed: the database could not be asked."""
