"""Telling an answer that came at once from one that came at the end of a wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from protocol3_conformance.bounds import bound

WAIT_MS = bound("MAX_WAIT_MS")


@contextmanager
def long_before_its_end() -> Iterator[None]:
    """What happens inside takes less than half of the longest wait, as nothing does that sits it out."""
    began = time.monotonic()
    yield
    took_ms = (time.monotonic() - began) * 1_000
    assert took_ms < WAIT_MS / 2, f"it took {took_ms:.0f} ms, as if it were answered at the end of its wait"
