"""Builders for the pure rules of tasks and delivery: records with sensible defaults around one instant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from protocol3.contract.models.common import Descriptor, LeaseOwner, ProgramRef, Scope
from protocol3.contract.models.delivery import (
    AcquireCommand,
    CompletedReport,
    ExecutionError,
    FailedReport,
    ProgramError,
    RenewCommand,
    SettleCommand,
    Success,
)
from protocol3.contract.strict_json import encode
from protocol3.core import records as r
from protocol3.core.acquisition import Poll
from protocol3.core.authority import owner_of
from protocol3.core.finalisation import TaskInHand
from protocol3.core.renewal import Renewing
from protocol3.core.settlement import Confirming, EncodedCommand, Settling
from protocol3.core.task_views import receipt_of, report_identity
from protocol3.core.verdict import Accepted, Clock, Fresh, Rejected, Replay, Verdict

NOW = 1_700_000_000_000
SCOPE = Scope(tenant_id="north", namespace="reports")
DESCRIPTOR = encode(
    Descriptor(program=ProgramRef(id="monthly", version="2"), digest="sha256:" + "0" * 64, size=9).to_json()
)

#: The columns of chapter 41, Attempts.
SITUATIONS = "ABCDEFG"


class Make:
    """Every builder takes the fields that matter to a test and fills in the rest."""

    now, scope, descriptor = NOW, SCOPE, DESCRIPTOR

    def clock(self, now: int = NOW) -> Clock:
        return Clock(now=now)

    def fresh(self) -> Fresh:
        return Fresh(b"seed", NOW)

    def session(self, **changes: Any) -> r.Session:
        session = r.Session(id="ws", scope_id=7, queue="q", concurrency=2, expires_at=NOW + 80_000_000, version=3)
        return replace(session, **changes)

    def cursor(self, **changes: Any) -> r.Cursor:
        cursor = r.Cursor(session_id="ws", consumer_id=0, sequence=4, task_id="task", attempt_id="att", version=5)
        return replace(cursor, **changes)

    def task(self, **changes: Any) -> r.Task:
        """Active, in its first of three attempts."""
        task = r.Task(
            id="task",
            scope_id=7,
            queue="q",
            run_id="run",
            state="active",
            submitted_at=NOW - 20_000,
            available_at=NOW - 20_000,
            terminal_at=None,
            cancel_requested_at=None,
            attempt_count=1,
            current_attempt_id="att",
            latest_attempt_id="att",
            history_length=2,
            max_attempts=3,
            retry_delay_ms=5_000,
            attempt_timeout_ms=300_000,
            correlation_key=None,
            workflow_id=None,
            activation=False,
            parent_workflow_id=None,
            root_workflow_id=None,
            version=11,
        )
        return replace(task, **changes)

    def queued(self, **changes: Any) -> r.Task:
        """Never claimed."""
        fields = {"state": "queued", "attempt_count": 0, "current_attempt_id": None, "latest_attempt_id": None}
        return self.task(**{**fields, "history_length": 1, **changes})

    def attempt(self, **changes: Any) -> r.Attempt:
        """Claimed ten seconds ago, not renewed, 50 s of lease left."""
        attempt = r.Attempt(
            id="att",
            task_id="task",
            number=1,
            lease_id="lease",
            session_id="ws",
            consumer_id=0,
            event_id="evt",
            claimed_at=NOW - 10_000,
            deadline=NOW + 290_000,
            authority_deadline=NOW + 320_000,
            lease_expires_at=NOW + 50_000,
            state="active",
            may_have_started=False,
            renew_sequence=0,
            renew_intent=None,
            quiescence="unconfirmed",
            settled_at=None,
            verdict=None,
            finished_at=None,
        )
        return replace(attempt, **changes)

    def situation(self, column: str) -> tuple[r.Task, r.Attempt]:
        """Task and attempt in a column of that table, the report being an unconfirmed or confirmed success."""
        report = {"settled_at": NOW - 5_000, "verdict": "success", "may_have_started": True}
        over = {"lease_expires_at": NOW}
        ended = {"state": "succeeded", "finished_at": NOW - 1_000}
        done = {"state": "succeeded", "terminal_at": NOW - 1_000, "current_attempt_id": None}
        changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "A": ({}, {}),
            "B": ({}, report),
            "C": ({}, over),
            "D": ({}, report | over),
            "E": (done, report | ended | {"quiescence": "confirmed"}),
            "F": (done, report | ended),
            "G": (done | {"state": "failed"}, {"state": "lost", "finished_at": NOW - 1_000}),
        }
        task, attempt = changes[column]
        return self.task(**task), self.attempt(**attempt)

    def body(self, **changes: Any) -> r.TaskBody:
        body = r.TaskBody(
            task_id="task", idempotency_key="k", data=b'{"n":1}', descriptor=DESCRIPTOR, origin_trace=None
        )
        return replace(body, **changes)

    def in_hand(self, task: r.Task, attempt: r.Attempt | None) -> TaskInHand:
        return TaskInHand(task=task, attempt=attempt)

    def owner(self, **changes: Any) -> LeaseOwner:
        return replace(owner_of(SCOPE, self.attempt()), **changes)

    def poll(self, *, sequence: int = 4, now: int = NOW, command: Any = (), **changes: Any) -> Poll:
        """The repetition of a sequence that brought a live attempt."""
        fields = {"scope": SCOPE, "queue": "q", "worker_session_id": "ws", "consumer_id": 0, "sequence": sequence}
        state: dict[str, Any] = {
            "session": self.session(),
            "cursor": self.cursor(),
            "task": self.task(),
            "attempt": self.attempt(),
            "body": self.body(),
            "work": True,
        }
        command = AcquireCommand(**{**fields, **dict(command)})
        return Poll(command=command, scope_id=7, clock=self.clock(now), **{**state, **changes})

    def renewing(
        self, *, sequence: int = 1, intent: Any = "keep_alive", now: int = NOW, owner: Any = None, **changes: Any
    ) -> Renewing:
        state: dict[str, Any] = {
            "session": self.session(),
            "cursor": self.cursor(),
            "task": self.task(),
            "attempt": self.attempt(),
        }
        command = RenewCommand(owner=owner or self.owner(), sequence=sequence, intent=intent)
        return Renewing(command=command, clock=self.clock(now), **{**state, **changes})

    def command(self, *, outcome: Any = None, error: str | None = None, **changes: Any) -> SettleCommand:
        """A confirmed success by default; `outcome` an ended program's, `error` the kind of an execution failure."""
        identity = report_identity(SCOPE, self.task(), self.attempt(), DESCRIPTOR, None)
        report: CompletedReport | FailedReport
        if error is None:
            outcome = Success(output="done") if outcome is None else outcome
            report = CompletedReport(
                identity=identity, process_id=1, reused_process=False, elapsed_ms=3, outcome=outcome
            )
        else:
            report = FailedReport(
                identity=identity,
                error=ExecutionError(kind=error, message="m"),  # type: ignore[arg-type]
                phase="execution",
                execution_may_have_started=False,
            )
        fields = {"owner": self.owner(), "operation_id": "op", "report": report, "quiescence": "confirmed"}
        return SettleCommand(**{**fields, **changes})

    def program_failure(self) -> ProgramError:
        return ProgramError(kind="k", message="m")

    def settling(
        self,
        command: SettleCommand,
        task: r.Task | None,
        attempt: r.Attempt | None,
        *,
        stored: SettleCommand | None = None,
        now: int = NOW,
    ) -> Settling:
        """`stored` is the command that was accepted before, five seconds ago."""
        receipt = identity = expected = None
        if task is not None and attempt is not None:
            expected = report_identity(SCOPE, task, attempt, DESCRIPTOR, None)
        if stored is not None and task is not None:
            receipt, identity = receipt_of(task, self.stored(stored)), stored.identity()
        return Settling(
            command=command,
            encoded=EncodedCommand.of(command),
            task=task,
            attempt=attempt,
            expected=expected,
            receipt=receipt,
            identity=identity,
            clock=self.clock(now),
        )

    def stored(self, command: SettleCommand) -> r.Settlement:
        encoded = EncodedCommand.of(command)
        return r.Settlement(
            attempt_id="att",
            operation_id=command.operation_id,
            command=encoded.command,
            output=encoded.output,
            identity=encoded.identity,
            accepted_at=NOW - 5_000,
        )

    def confirming(self, task: r.Task | None, attempt: r.Attempt | None, **owner: Any) -> Confirming:
        return Confirming(owner=self.owner(**owner), task=task, attempt=attempt, clock=self.clock())


def written(verdict: Verdict, kind: Any) -> Any:
    """The one record of a kind that an accepted decision leaves behind; the last one counts, as in the store."""
    assert isinstance(verdict, Accepted)
    return [record for record in verdict.records if isinstance(record, kind)][-1]


def reasons(verdict: Verdict) -> list[str]:
    assert isinstance(verdict, Accepted)
    return [record.reason for record in verdict.records if isinstance(record, r.History)]


def word(verdict: Verdict | None) -> str:
    """`accepted`, `replay`, `admitted` (no verdict) or the code of a rejection."""
    match verdict:
        case None:
            return "admitted"
        case Accepted():
            return "accepted"
        case Replay():
            return "replay"
        case Rejected(code=code):
            return code


@pytest.fixture
def make() -> Make:
    return Make()


@pytest.fixture(name="written")
def _written() -> Any:
    return written


@pytest.fixture(name="reasons")
def _reasons() -> Any:
    return reasons


@pytest.fixture(name="word")
def _word() -> Any:
    return word
