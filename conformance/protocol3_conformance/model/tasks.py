"""Tasks and attempts: how they begin, how they end, and what reads show of them (chapters 06 and 07)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.model.expected import SOME, Answer, accepted, by, exactly

TERMINAL = ("succeeded", "failed", "cancelled")
RECORDED = {
    "submitted": "TASK-229",
    "claimed": "TASK-230",
    "dispatch_authorized": "TASK-231",
    "cancel_requested": "TASK-232",
    "report_accepted": "TASK-233",
    "cleanup_confirmed": "TASK-234",
    "lease_expired": "TASK-235",
    "succeeded": "TASK-236",
    "failed": "TASK-237",
    "retry_scheduled": "TASK-238",
    "cancelled": "TASK-239",
}
"""The reasons of history, and their rows."""
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
        shown = {
            "renew_sequence": by(self.sequence, "DLV-326"),
            "cancel_requested": by(stopped, "DLV-327"),
            "dispatch_allowed": by(allowed, "DLV-328"),
        }
        return {**shown, "execution_remaining_ms": by(0, "DLV-325")} if stopped else shown

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
            "state": by(self.state, "DLV-024" if self.state == "active" else "DLV-347"),
            "execution_may_have_started": by(self.started, "DLV-081" if self.command else "DLV-058"),
            "last_renewal": by(renewal, "DLV-056"),
            "quiescence": by(self.quiescence, "TASK-069" if self.state == "lost" else "DLV-083"),
            "settlement": by(stored, "DLV-086"),
            "finished_at": by(None if self.state == "active" else SOME, "TASK-067"),
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
    why: tuple[str, ...] = ("TASK-100",)
    """The requirements by which it came into its state."""

    @property
    def current(self) -> Attempt | None:
        """The attempt of an active task (TASK-054)."""
        return self.attempts[-1] if self.state == "active" else None

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def retries(self) -> bool:
        """Whether another attempt follows the current one, if that one ends as it is (DLV-337…341)."""
        _, worth, _ = _verdict(self.attempts[-1].command)
        return worth and not self.cancelling and len(self.attempts) < self.policy.max_attempts

    def ready(self, queue: str, now: int) -> bool:
        """DLV-022."""
        return self.state == "queued" and self.queue == queue and self.available <= now

    # What reads show

    @property
    def shown_state(self) -> Any:
        return by(self.state, *self.why)

    @property
    def snapshot(self) -> Any:
        """TASK-100, TASK-104."""
        return {
            "task_id": self.name,
            "idempotency_key": self.key,
            "state": self.shown_state,
            "attempt_count": by(len(self.attempts), "DLV-024"),
            "current_attempt_id": by(self.current.name if self.current else None, "TASK-054"),
            "terminal_at": by(SOME if self.terminal else None, "TASK-055"),
            "cancel_requested_at": by(SOME if self.cancelling else None, "TASK-056"),
        }

    @property
    def status(self) -> Any:
        """TASK-052…057, ACT-007."""
        latest = self.attempts[-1].name if self.attempts else None
        shown = {**self.snapshot, "latest_attempt_id": by(latest, "TASK-053"), "queue": self.queue}
        del shown["idempotency_key"]
        if self.owner is not None:
            shown["workflow_id"] = by(self.owner.name, "ACT-007")
        if self.activation:
            shown["workflow_activation_id"] = by(self.name, "ACT-007")
        return shown

    @property
    def outcome(self) -> Any:
        """The first table of chapter 06, Outcomes."""
        if self.state == "active" and self.attempts[-1].command is not None:
            return by(None, "TASK-125")
        if not self.terminal:
            return by(None, "TASK-126" if self.attempts and self.state == "queued" else "TASK-215")
        if self.state == "cancelled":
            return by(exactly({"kind": "cancelled"}), "TASK-218")
        last = self.attempts[-1]
        ended = {
            "kind": self.state,
            "attempt_id": last.name,
            "quiescence": last.quiescence,
            "execution_may_have_started": last.started,
        }
        return by(exactly({**ended, **_content(last)}), "TASK-216" if self.state == "succeeded" else "TASK-217")

    @property
    def records(self) -> list[Any]:
        """The history; a missing or further record breaks TASK-132."""
        return [
            {
                "sequence": number,
                "event": by({"reason": reason, "attempt_id": attempt and attempt.name}, RECORDED[reason]),
            }
            for number, (reason, attempt) in enumerate(self.history, 1)
        ]

    # Transitions

    def cancel(self, now: int, grace: int) -> Answer:
        """The reply is the state afterwards."""
        attempt = self.current
        if self.terminal or (attempt and self.cancelling):
            return accepted(self.state, "TASK-223" if self.terminal else "TASK-224")
        self.cancelling = True
        self.history.append(("cancel_requested", attempt))
        if attempt is None:
            self._end("cancelled", None, "TASK-200")
            return accepted(self.state, "TASK-225")
        if attempt.live(now):  # TASK-203
            self.why = ("TASK-202",)
            attempt.authority = min(attempt.authority, now + grace)
            attempt.expires, attempt.until = min(attempt.expires, attempt.authority), None
            return accepted(self.state, "TASK-226")
        self.lose(now)
        return accepted(self.state, "TASK-227")

    def lose(self, now: int) -> None:
        """The lease ran out (DLV-111)."""
        assert self.current is not None
        self.history.append(("lease_expired", self.current))
        self.finalise(now)

    def finalise(self, now: int) -> None:
        """Chapter 07, How an attempt ends (DLV-114, DLV-115)."""
        attempt = self.current
        assert attempt is not None
        if self.cancelling:
            attempt.state = "cancelled" if attempt.confirmed else "lost"
            self._end("cancelled", attempt, "DLV-344")
            return
        verdict, _, rule = _verdict(attempt.command)
        attempt.state = verdict
        if self.retries:
            self.state, self.available = "queued", now + self.policy.retry_delay
            self.why = (rule,)
            self.history.append(("retry_scheduled", attempt))
            return
        self._end("succeeded" if verdict == "succeeded" else "failed", attempt, rule)

    def _end(self, state: str, attempt: Attempt | None, rule: str) -> None:
        self.state, self.why = state, (rule,)
        self.history.append((state, attempt))


def _verdict(command: Any) -> tuple[str, bool, str]:
    """The state of the attempt, whether another one is worth while, and the row that says so."""
    if command is None:
        return "lost", True, "DLV-341"
    report = command["report"]["report"]
    if command["report"]["kind"] == "completed":
        succeeded = report["outcome"]["status"] == "success"
        return ("succeeded", False, "DLV-337") if succeeded else ("failed", False, "DLV-338")
    retried = report["error"]["kind"] in RETRIED
    return "failed", retried, "DLV-339" if retried else "DLV-340"


def _content(attempt: Attempt) -> Any:
    """Output or failure of a result (TASK-216…221, DLV-089)."""
    if attempt.command is None:
        return {"failure": by(exactly({"kind": "attempt_lost"}), "TASK-221")}
    report = attempt.command["report"]["report"]
    if attempt.command["report"]["kind"] == "failed":
        why = {"kind": "execution", "error": report["error"], "phase": report["phase"], "cleanup_error": None}
        return {"failure": by(exactly(why), "TASK-220")}
    told = report["outcome"]
    if told["status"] == "success":
        return {"output": told["output"]}
    failure = {"kind": "application", "error": {name: told[name] for name in ("kind", "message")}}
    return {"failure": by(exactly(failure), "TASK-219")}
