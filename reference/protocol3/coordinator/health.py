"""What `/health/live` and `/health/ready` say (chapter 03, Health, RCV-031). A state object: others feed it."""

from collections.abc import Callable
from typing import Final

from protocol3.contract.limits import RECOVERY_STALE_MS
from protocol3.contract.strict_json import JsonValue


class Pass:
    """A background pass that must keep succeeding for the service to be ready. Instants are monotonic seconds."""

    __slots__ = ("_unavailable", "failures", "last_success", "name", "successes")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._unavailable = False
        self.successes = self.failures = 0
        self.last_success: float | None = None

    def succeeded(self, now: float) -> None:
        """A whole pass went through at `now`; this also ends `unavailable`."""
        self.last_success = now
        self.successes += 1
        self._unavailable = False

    def unavailable(self) -> None:
        """Passes cannot run at present, for example because the database refuses connections or the loop ended."""
        self._unavailable = True
        self.failures += 1

    def reasons(self, now: float) -> list[str]:
        """Why this pass keeps the service unready at `now`; empty while it does not (HTTP-092)."""
        if self._unavailable:
            return [f"{self.name}_unavailable"]
        if self.last_success is None:
            return [f"{self.name}_pending"]
        return [f"{self.name}_stale"] if _age_ms(self.last_success, now) > RECOVERY_STALE_MS else []


class Health:
    """Readiness of one process: started, not shutting down, every watched pass recent.

    `recovery`, the pass over what is due, is always watched. `watch` adds another one, such as `workflow_recovery`
    (RCV-031); its reasons are its name with `_pending`, `_stale`, `_unavailable`. `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = False
        self._shutting_down = False
        self.recovery = Pass("recovery")
        self.passes = [self.recovery]

    def startup_done(self) -> None:
        """Migrations are checked, connections are open, loops are running."""
        self._started = True

    def shutting_down(self) -> None:
        """The service is unready from now on (HTTP-092)."""
        self._shutting_down = True

    def watch(self, name: str) -> Pass:
        """Make readiness depend on another pass and return it, to be fed by its loop."""
        added = Pass(name)
        self.passes.append(added)
        return added

    def live(self) -> tuple[int, JsonValue]:
        """Status and document of `/health/live`: answering is living (HTTP-090)."""
        return 200, {"status": "ok", "reasons": []}

    def ready(self) -> tuple[int, JsonValue]:
        """Status and document of `/health/ready` (HTTP-091)."""
        now = self._clock()
        reasons: list[JsonValue] = []
        if self._shutting_down:
            reasons.append("shutting_down")
        if not self._started:
            reasons.append("startup_incomplete")
        for watched in self.passes:
            reasons += watched.reasons(now)
        last = self.recovery.last_success
        return 503 if reasons else 200, {
            "status": "not_ready" if reasons else "ok",
            "reasons": reasons,
            "recovery_last_success_age_ms": None if last is None else _age_ms(last, now),
        }


def _age_ms(then: float, now: float) -> int:
    return max(0, round((now - then) * 1000))
