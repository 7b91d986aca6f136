"""The live line of a run on a terminal: counts and time left, until the reports begin."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from protocol3_conformance.conductor import Conductor, Progress

BEAT = 0.2
SLOW_SECONDS = 100.0
"""About how long the scenarios that wait for leases take, side by side."""
DEATH_SECONDS = 30.0
"""About how long those take in which the target dies and comes back, side by side, after all others."""


def watch(conductor: Conductor, *, stop_after: int, stream: TextIO = sys.stdout) -> None:
    """Show how far the scenarios are until all have ended, or until as many failed as `-x` and `--maxfail` allow."""
    if not stream.isatty():
        return
    began = time.monotonic()
    while not conductor.wait(BEAT):
        seen = conductor.progress()
        if stop_after and seen.failed >= stop_after:
            break
        stream.write(f"\r\x1b[K{line(seen, time.monotonic() - began)}")
        stream.flush()
    stream.write("\r\x1b[K")
    stream.flush()


def line(seen: Progress, seconds: float) -> str:
    """One line: `120/193 checks, 2 failed, about 24 s left`."""
    failed = f", {seen.failed} failed" if seen.failed else ""
    left = time_left(seen, seconds)
    return f"{seen.ended}/{seen.total} checks{failed}, {'…' if left is None else f'about {left:.0f} s left'}"


def time_left(seen: Progress, seconds: float) -> float | None:
    """In seconds; None while too few have ended to tell.

    Waits for leases take their own time, whatever else does, and so does the death of the target after them.
    """
    quick, quick_total = seen.ended - seen.ended_slow, seen.total - seen.slow - seen.dying
    if quick < quick_total and quick * 20 < quick_total:
        return None
    busy = seconds * (quick_total - quick) / quick if quick else 0.0
    waiting = seen.ended_slow < seen.slow
    return max(busy, SLOW_SECONDS - seconds if waiting else 0.0, 1.0) + (DEATH_SECONDS if seen.dying else 0.0)
