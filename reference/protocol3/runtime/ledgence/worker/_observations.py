"""What one invocation used (RUN-086 … RUN-095)."""

from __future__ import annotations

import sys
from time import monotonic_ns, time_ns

from ._frames import compact
from ._limits import OBSERVATIONS_BYTES, OBSERVED_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    import resource
except ImportError:  # a platform without these counters reports null (RUN-088)
    resource = None  # type: ignore[assignment]

# Bytes in one unit of ru_maxrss (RUN-089).
_RSS_UNITS = {"linux": 1024, "darwin": 1}


class Meter:
    """Started just before application code, read right after it. `steps` are entries of `local_steps`."""

    __slots__ = ("_started", "_started_at", "_usage", "steps")

    def __init__(self) -> None:
        self.steps: list[StepMeter] = []
        self.restart()

    def restart(self) -> None:
        """Forget the time spent on preparation (RUN-087)."""
        self._usage = _usage()
        self._started_at = time_ns()
        self._started = monotonic_ns()

    def read(self) -> bytes:
        """The compact observations object."""
        elapsed = monotonic_ns() - self._started
        before, after = self._usage, _usage()
        user = system = None
        if before is not None and after is not None:
            user = _microseconds(before.ru_utime, after.ru_utime)
            system = _microseconds(before.ru_stime, after.ru_stime)
        observed: dict[str, Any] = {
            "runtime_started_at_ms": self._started_at // 1_000_000,
            "runtime_elapsed_us": elapsed // 1000,
            "process_cpu_user_us": user,
            "process_cpu_system_us": system,
            "process_lifetime_peak_rss_bytes": _peak_rss(after),
        }
        steps = [compact(step.entry()) for step in self.steps[:OBSERVED_STEPS]]
        head = compact(observed)[:-1]
        room = OBSERVATIONS_BYTES - len(head) - len(b',"local_steps":[],"local_steps_truncated":false}')
        while sum(map(len, steps)) + len(steps) > room + 1:
            steps.pop()
        truncated = compact(len(steps) < len(self.steps))
        return b'%b,"local_steps":[%b],"local_steps_truncated":%b}' % (head, b",".join(steps), truncated)


class StepMeter:
    """One local key. `state` is `returned`, `failed`, `cancelled` or `replayed`."""

    __slots__ = ("_callable", "_elapsed", "_key", "_started", "_started_at", "state")

    def __init__(self, key: str, callable_name: str, state: str = "cancelled") -> None:
        self._key = key
        self._callable = callable_name
        self._started_at = time_ns()
        self._started = monotonic_ns()
        self._elapsed = 0
        self.state = state

    def stop(self, state: str) -> None:
        self._elapsed = monotonic_ns() - self._started
        self.state = state

    def entry(self) -> dict[str, Any]:
        return {
            "key": self._key,
            "callable": self._callable,
            "started_at_ms": self._started_at // 1_000_000,
            "elapsed_us": self._elapsed // 1000,
            "state": self.state,
        }


def _usage() -> resource.struct_rusage | None:
    return None if resource is None else resource.getrusage(resource.RUSAGE_SELF)


def _microseconds(before: float, after: float) -> int:
    return max(0, round((after - before) * 1_000_000))


def _peak_rss(usage: resource.struct_rusage | None) -> int | None:
    unit = _RSS_UNITS.get(sys.platform)
    return None if usage is None or unit is None else usage.ru_maxrss * unit
