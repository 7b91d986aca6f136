"""The monotonic clock of the worker, in milliseconds. Wall-clock values never decide anything (WRK-016).

It goes on while the machine is suspended, as the service's time does: a lease that ran out meanwhile has run out.
"""

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux the plain monotonic clock stands still in a suspended machine; on macOS it does not."""


def now_ms() -> float:
    return time.clock_gettime(_CLOCK) * 1000
