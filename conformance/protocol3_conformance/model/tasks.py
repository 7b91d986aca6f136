"""Tasks and attempts: how they begin, how they end, and what reads show of them (chapters 06 and 07)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model.expected import SOME, Answer, accepted, exactly

TERMINAL = ("succeeded", "failed", "cancelled")
RETRIED = ("unavailable", "io", "capacity", "runtime", "timed_out", "cancelled")
"""Kinds of failures around a program that are worth another attempt (DLV-339)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Durations of the contract in milliseconds."""

    lease: int
    grace: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`max_attempts` counts the first one (DLV-116)."""

    max_attempts: int
    retry_delay: int


@dataclass(slots=True, eq=False, kw_only=True)
class Attempt:
    """`name` is its id, `owner` its lease owner, `until` the `expires_at` of the last renewal's reply while it holds.

    The instants are those of DLV-027.
    """

    name: Any
    owner: Any
    event: Any
    task: Task
    number: int
    expires: int
    deadline: int
    authority: int
    state: str = "active"
    started: bool = False
    confirmed: bool = False
    sequence: int = 0
    intent: str | None = None
    until: Any = None
    command: Any = None
    receipt: Any = None

    def live(self, now: int) -> bool:
        """DLV-015."""
        return self.task.current is self and now < min(self.expires, self.authority)

    def stopped(self, now: int) -> bool:
        """Chapter 07, Authority."""
        return self.task.cancelling or now >= self.deadline

    def authority_now(self, now: int) -> Any:
        """DLV-323…328, as far as it does not depend on the clock's last milliseconds."""
        stopped = self.stopped(now)
        allowed = not stopped and self.command is None and self.intent == "dispatch"
        shown = {"renew_sequence": self.sequence, "cancel_requested": stopped, "dispatch_allowed": allowed}
        return {**shown, "execution_remaining_ms": 0} if stopped else shown

    @property
    def quiescence(self) -> str:
        return "confirmed" if self.confirmed else "unconfirmed"

    @property
    def shown(self) -> Any:
        """Attempt inspection (TASK-067…069, TASK-222); the stored command is the accepted one (DLV-083, DLV-086)."""
        renewal = None if self.intent is None else {"sequence": self.sequence, "intent": self.intent}
        stored = None
        if self.command is not None:
            names = {name: self.command[name] for name in ("owner", "operation_id", "quiescence")}
            stored = {"command": names, "receipt": {"accepted_at": self.receipt}}
        return {
            "event": self.event,
            "lease": {"owner": self.owner},
            "state": self.state,
            "execution_may_have_started": self.started,
            "last_renewal": renewal,
            "quiescence": self.quiescence,
            "settlement": stored,
            "finished_at": None if self.state == "active" else SOME,
        }


@dataclass(slots=True, eq=False, kw_only=True)
class Task:
    """`owner` is the workflow it belongs to, `activation` whether it is one of that workflow's activations."""

    data: Any
    queue: str
    policy: Policy
    key: str | None = None
    binding: Any = None
    name: Any = None
    available: int = 0
    state: str = "queued"
    cancelling: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    history: list[tuple[str, Attempt | None]] = field(default_factory=lambda: [("submitted", None)])
    owner: Any = None
    activation: bool = False

    @property
    def current(self) -> Attempt | None:
        """The attempt of an active task (TASK-054)."""
        return self.attempts[-1] if self.state == "active" else None

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    def ready(self, queue: str, now: int) -> bool:
        """DLV-022."""
        return self.state == "queued" and self.queue == queue and self.available <= now

    # What reads show

    @property
    def snapshot(self) -> Any:
        """TASK-100, TASK-104."""
        return {
            "task_id": self.name,
            "idempotency_key": self.key,
            "state": self.state,
            "attempt_count": len(self.attempts),
            "current_attempt_id": self.current.name if self.current else None,
            "terminal_at": SOME if self.terminal else None,
            "cancel_requested_at": SOME if self.cancelling else None,
        }

    @property
    def status(self) -> Any:
        """TASK-052…057, ACT-007."""
        latest = self.attempts[-1].name if self.attempts else None
        shown = {**self.snapshot, "latest_attempt_id": latest, "queue": self.queue}
        del shown["idempotency_key"]
        if self.owner is not None:
            shown["workflow_id"] = self.owner.name
        if self.activation:
            shown["workflow_activation_id"] = self.name
        return shown

    @property
    def outcome(self) -> Any:
        """TASK-215…221, TASK-125…127."""
        if not self.terminal:
            return None
        if self.state == "cancelled":
            return exactly({"kind": "cancelled"})
        last = self.attempts[-1]
        ended = {
            "kind": self.state,
            "attempt_id": last.name,
            "quiescence": last.quiescence,
            "execution_may_have_started": last.started,
        }
        return exactly({**ended, **_content(last)})

    @property
    def records(self) -> list[Any]:
        """The history (TASK-132, TASK-229…239)."""
        return [
            {"sequence": number, "event": {"reason": reason, "attempt_id": attempt and attempt.name}}
            for number, (reason, attempt) in enumerate(self.history, 1)
        ]

    # Transitions

    def cancel(self, now: int, grace: int) -> Answer:
        """TASK-223…227; the reply is the state afterwards."""
        attempt = self.current
        if self.terminal or (attempt and self.cancelling):
            return accepted(self.state)
        self.cancelling = True
        self.history.append(("cancel_requested", attempt))
        if attempt is None:  # TASK-200
            self._end("cancelled", None)
        elif attempt.live(now):  # TASK-203
            attempt.authority = min(attempt.authority, now + grace)
            attempt.expires, attempt.until = min(attempt.expires, attempt.authority), None
        else:  # TASK-210
            self.lose(now)
        return accepted(self.state)

    def lose(self, now: int) -> None:
        """The lease ran out (DLV-111)."""
        assert self.current is not None
        self.history.append(("lease_expired", self.current))
        self.finalise(now)

    def finalise(self, now: int) -> None:
        """DLV-344…347, DLV-337…341, DLV-114, DLV-115."""
        attempt = self.current
        assert attempt is not None
        if self.cancelling:
            attempt.state = "cancelled" if attempt.confirmed else "lost"
            self._end("cancelled", attempt)
            return
        verdict, retried = _verdict(attempt.command)
        attempt.state = verdict
        if retried and len(self.attempts) < self.policy.max_attempts:
            self.state, self.available = "queued", now + self.policy.retry_delay
            self.history.append(("retry_scheduled", attempt))
            return
        self._end("succeeded" if verdict == "succeeded" else "failed", attempt)

    def _end(self, state: str, attempt: Attempt | None) -> None:
        self.state = state
        self.history.append((state, attempt))


def _verdict(command: Any) -> tuple[str, bool]:
    """The state of the attempt, and whether another one is worth while."""
    if command is None:
        return "lost", True
    report = command["report"]["report"]
    if command["report"]["kind"] == "completed":
        return ("succeeded" if report["outcome"]["status"] == "success" else "failed"), False
    return "failed", report["error"]["kind"] in RETRIED


def _content(attempt: Attempt) -> Any:
    """Output or failure of a result (TASK-216…221, DLV-089)."""
    if attempt.command is None:
        return {"failure": exactly({"kind": "attempt_lost"})}
    report = attempt.command["report"]["report"]
    if attempt.command["report"]["kind"] == "failed":
        why = {"kind": "execution", "error": report["error"], "phase": report["phase"], "cleanup_error": None}
        return {"failure": exactly(why)}
    told = report["outcome"]
    if told["status"] == "success":
        return {"output": told["output"]}
    return {"failure": exactly({"kind": "application", "error": {k: told[k] for k in ("kind", "message")}})}
