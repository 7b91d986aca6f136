"""Settling an attempt and confirming its quiescence (chapter 07)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from protocol3.contract.application import too_large
from protocol3.contract.limits import SETTLEMENT_BODY_BYTES
from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.delivery import (
    CompletedReport,
    FailedReport,
    Report,
    ReportIdentity,
    SettleCommand,
    SettlementReceipt,
    SettleReply,
    Success,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.core.authority import is_live, live_until, owner_of
from protocol3.core.finalisation import changed, classify_failure, finalise, latest_instant
from protocol3.core.history import append
from protocol3.core.records import Attempt, ReportVerdict, Settlement, Task
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict, judged

_NO_OUTPUT: Final = b'"output":null'
_NO_TRACE: Final = b',"processing_trace":null'


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedCommand:
    """A command as it is stored and measured; made once, before anything is read."""

    command: bytes
    output: bytes | None
    identity: bytes
    size: int

    @classmethod
    def of(cls, command: SettleCommand) -> EncodedCommand:
        """`size` is that of the compact command, a null trace not counted (step 5 of DLV-336)."""
        report, output = command.report, None
        if isinstance(report, CompletedReport) and isinstance(report.outcome, Success):
            output = encode(report.outcome.output)
            report = replace(report, outcome=Success(output=None))
        frame = encode(replace(command, report=report).to_json())
        size = len(frame) if output is None else len(frame) - len(b"null") + len(output)
        if command.processing_trace is None:
            size -= len(_NO_TRACE)
        return cls(command=frame, output=output, identity=command.identity(), size=size)


def whole_command(settlement: Settlement) -> bytes:
    """The accepted command as compact JSON.

    No text inside a string has an unescaped quote, so the first `"output":` is the member itself.
    """
    if settlement.output is None:
        return settlement.command
    return settlement.command.replace(_NO_OUTPUT, b'"output":' + settlement.output, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The command and what it names. `expected` is the identity that a report of this attempt must carry.

    `receipt` and `identity` are those of the settlement stored for the attempt, if there is one.
    """

    command: SettleCommand
    encoded: EncodedCommand
    task: Task | None
    attempt: Attempt | None
    expected: ReportIdentity | None
    receipt: SettlementReceipt | None
    identity: bytes | None
    clock: Clock


def settle(asked: Settling, fresh: Fresh) -> Verdict:
    """Replies with a SettleReply. The lease alone counts, no session is asked (DLV-080)."""
    return judged(SETTLE_CHECKS, asked) or accept(asked, fresh).verdict()


def _found(asked: Settling) -> Verdict | None:
    return Rejected(code="not_found") if asked.task is None or asked.attempt is None else None


def _owner(asked: Settling) -> Verdict | None:
    _, attempt = _held(asked.task, asked.attempt)
    return None if _is_owner(asked.command.owner, attempt) else Rejected(code="ownership_lost")


def _trace(asked: Settling) -> Verdict | None:
    try:
        asked.command.check_trace()
    except Refusal as refusal:
        return Rejected(code=refusal.code, message=refusal.message)
    return None


def _report(asked: Settling) -> Verdict | None:
    """Identity, program and digest are those of the attempt, before any liveness (DLV-078, DLV-079).

    DLV-335, DLV-355.
    """
    return None if asked.command.report.identity == asked.expected else Rejected(code="conflict")


def _size(asked: Settling) -> Verdict | None:
    """The command's own limit (JSON-067); it bounds every outcome made of it (TASK-066)."""
    if asked.encoded.size <= SETTLEMENT_BODY_BYTES:
        return None
    refusal = too_large("body", SETTLEMENT_BODY_BYTES)
    return Rejected(code=refusal.code, message=refusal.message)


def _replay(asked: Settling) -> Verdict | None:
    """A stored settlement decides before liveness (DLV-075, DLV-076)."""
    if asked.receipt is None:
        return None
    if asked.identity != asked.encoded.identity:
        return Rejected(code="conflict")
    task, _ = _held(asked.task, asked.attempt)
    return Replay(reply=SettleReply(receipt=asked.receipt, already_accepted=True, task_state=task.state))


def _settle_live(asked: Settling) -> Verdict | None:
    """A first report needs a live attempt, recovered or not (DLV-077)."""
    return _lost_unless_live(*_held(asked.task, asked.attempt), asked.clock)


#: The order of DLV-336, from step 2.
SETTLE_CHECKS: Final = (_found, _owner, _trace, _report, _size, _replay, _settle_live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A report that is accepted, before its step is frozen: `task` as it is left, `attempt` before it was finished."""

    draft: Draft
    task: Task
    attempt: Attempt
    settlement: Settlement
    clock: Clock
    until: int

    def verdict(self) -> Verdict:
        """Replies with a SettleReply."""
        receipt = SettlementReceipt(
            operation_id=self.settlement.operation_id,
            task_id=self.task.id,
            attempt_id=self.attempt.id,
            accepted_at=self.clock.now,
        )
        reply = SettleReply(receipt=receipt, already_accepted=False, task_state=self.task.state)
        return self.draft.accepted(reply, self.clock, valid_until=[self.until])


def accept(asked: Settling, fresh: Fresh) -> Reported:
    """What a report that passed every check changes (TASK-233)."""
    task, attempt = _held(asked.task, asked.attempt)
    until = live_until(attempt)
    command, encoded = asked.command, asked.encoded
    clock = asked.clock.at_least(latest_instant(task, attempt))
    draft = Draft()
    draft.guard(changed(task))
    settlement = Settlement(
        attempt_id=attempt.id,
        operation_id=command.operation_id,
        command=encoded.command,
        output=encoded.output,
        identity=encoded.identity,
        accepted_at=clock.now,
    )
    draft.write(settlement)
    attempt = replace(
        attempt,
        quiescence=command.quiescence,
        settled_at=clock.now,
        verdict=classify(command.report),
        may_have_started=attempt.may_have_started or _started(command.report),
    )
    task = append(draft, task, clock.now, attempt.id, "report_accepted")
    if command.quiescence == "confirmed":
        task = finalise(draft, task, attempt, clock=clock, fresh=fresh)
    else:  # DLV-084
        draft.write(task, attempt)
    return Reported(draft=draft, task=task, attempt=attempt, settlement=settlement, clock=clock, until=until)


def classify(report: Report) -> ReportVerdict:
    """What a report decides about its attempt (chapter 07, What a report decides)."""
    if isinstance(report, FailedReport):
        return classify_failure(report.error.kind)
    return "success" if isinstance(report.outcome, Success) else "application"


def _started(report: Report) -> bool:
    """DLV-081: a completed report says by itself that the program ran."""
    return True if isinstance(report, CompletedReport) else report.execution_may_have_started


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirming:
    """The lease owner who confirms, and the attempt that it names."""

    owner: LeaseOwner
    task: Task | None
    attempt: Attempt | None
    clock: Clock


def confirm_quiescence(asked: Confirming, fresh: Fresh) -> Verdict:
    """Replies with the task state (DLV-100 to DLV-105, TASK-234)."""
    refused = judged(CONFIRM_CHECKS, asked)
    if refused is not None:
        return refused
    task, attempt = _held(asked.task, asked.attempt)
    until = live_until(attempt)
    clock = asked.clock.at_least(latest_instant(task, attempt))
    draft = Draft()
    draft.guard(changed(task))
    task = append(draft, task, clock.now, attempt.id, "cleanup_confirmed")
    task = finalise(draft, task, replace(attempt, quiescence="confirmed"), clock=clock, fresh=fresh)
    return draft.accepted(task.state, clock, valid_until=[until])


def _confirm_found(asked: Confirming) -> Verdict | None:
    return Rejected(code="not_found") if asked.task is None or asked.attempt is None else None


def _confirm_owner(asked: Confirming) -> Verdict | None:
    _, attempt = _held(asked.task, asked.attempt)
    return None if _is_owner(asked.owner, attempt) else Rejected(code="ownership_lost")


def _already_confirmed(asked: Confirming) -> Verdict | None:
    task, attempt = _held(asked.task, asked.attempt)
    return Replay(reply=task.state) if attempt.quiescence == "confirmed" else None


def _confirm_live(asked: Confirming) -> Verdict | None:
    """DLV-103."""
    return _lost_unless_live(*_held(asked.task, asked.attempt), asked.clock)


def _reported(asked: Confirming) -> Verdict | None:
    _, attempt = _held(asked.task, asked.attempt)
    if attempt.settled_at is None:
        return Rejected(code="invalid_input", message="body: this attempt has no accepted report to confirm")
    return None


#: The order of DLV-342.
CONFIRM_CHECKS: Final = (_confirm_found, _confirm_owner, _already_confirmed, _confirm_live, _reported)


def _held(task: Task | None, attempt: Attempt | None) -> tuple[Task, Attempt]:
    assert task is not None
    assert attempt is not None
    return task, attempt


def _is_owner(owner: LeaseOwner, attempt: Attempt) -> bool:
    return owner == owner_of(owner.scope, attempt)


def _lost_unless_live(task: Task, attempt: Attempt, clock: Clock) -> Verdict | None:
    if is_live(task, attempt, clock.now):
        return None
    return Rejected(code="ownership_lost", guards=(changed(task),))
