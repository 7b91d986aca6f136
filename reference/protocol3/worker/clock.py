"""The monotonic clock of the worker, in milliseconds. Wall-clock values never decide anything (WRK-016)."""

import time


def now_ms() -> float:
    return time.monotonic() * 1000
