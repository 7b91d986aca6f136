"""What tasks and attempts look like from outside, made from their records (chapters 06 and 07).

The data of a task and the output of a report are taken over as they are stored: they may be large, and are compact
JSON already. Replies that hold them are encoded here; the others are models.
"""

from __future__ import annotations

from typing import assert_never

from protocol3.contract.cloudevents import new_invocation_event
from protocol3.contract.models.common import Descriptor, RetryPolicy, Scope, TraceContext
from protocol3.contract.models.delivery import (
    CompletedReport,
    FailedReport,
    Lease,
    ProgramError,
    RenewCommand,
    ReportIdentity,
    SettleCommand,
    SettlementReceipt,
    WorkerSession,
)
from protocol3.contract.models.outcomes import (
    ApplicationFailure,
    AttemptLost,
    Cancelled,
    ExecutionFailure,
    Failure,
    TaskFailed,
    task_outcome_to_json,
)
from protocol3.contract.models.tasks import HistoryRecord, SubmitInput, TaskStatus
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, decode, encode
from protocol3.core.acquisition import Assigned
from protocol3.core.authority import authority, owner_of
from protocol3.core.records import Attempt, History, Session, Settlement, Task, TaskBody
from protocol3.core.settlement import whole_command


def contradiction() -> Refusal:
    """Stored records that do not fit together are never turned into an answer (TASK-128)."""
    return Refusal("unavailable", "the stored records contradict each other")


def status(scope: Scope, task: Task) -> TaskStatus:
    """Raises `unavailable` for a record that breaks the relations of TASK-053 to TASK-058 (HTTP-069)."""
    view = TaskStatus(
        scope=scope,
        task_id=task.id,
        run_id=task.run_id,
        queue=task.queue,
        correlation_key=task.correlation_key,
        state=task.state,
        attempt_count=task.attempt_count,
        current_attempt_id=task.current_attempt_id,
        latest_attempt_id=task.latest_attempt_id,
        submitted_at=task.submitted_at,
        available_at=task.available_at,
        terminal_at=task.terminal_at,
        cancel_requested_at=task.cancel_requested_at,
        workflow_id=task.workflow_id,
        workflow_activation_id=_activation_id(task),
    )
    try:
        view.check()
    except Refusal:
        raise contradiction() from None
    return view


def snapshot(scope: Scope, task: Task, body: TaskBody) -> bytes:
    """The encoded TaskSnapshot. A task that nobody submitted shows its own id as its key."""
    status(scope, task)
    descriptor = decode(body.descriptor)
    program = Descriptor.from_json(descriptor).program
    input = SubmitInput(
        tenant_id=scope.tenant_id,
        namespace=scope.namespace,
        queue=task.queue,
        program=program,
        data=None,
        correlation_key=task.correlation_key,
        retry_policy=RetryPolicy(max_attempts=task.max_attempts, retry_delay_ms=task.retry_delay_ms),
        attempt_timeout_ms=task.attempt_timeout_ms,
    ).to_json()
    members: dict[str, JsonValue] = {
        "task_id": task.id,
        "run_id": task.run_id,
        "idempotency_key": task.id if body.idempotency_key is None else body.idempotency_key,
        "descriptor": descriptor,
        "origin_trace": None if body.origin_trace is None else decode(body.origin_trace),
        "state": task.state,
        "submitted_at": task.submitted_at,
        "available_at": task.available_at,
        "terminal_at": task.terminal_at,
        "current_attempt_id": task.current_attempt_id,
        "attempt_count": task.attempt_count,
        "cancel_requested_at": task.cancel_requested_at,
    }
    lineage = {
        "workflow_id": task.workflow_id,
        "workflow_activation_id": _activation_id(task),
        "parent_workflow_id": task.parent_workflow_id,
        "root_workflow_id": task.root_workflow_id,
    }
    members.update({name: value for name, value in lineage.items() if value is not None})
    del input["data"]
    return joined(members, input=joined(input, data=body.data))


def result(scope: Scope, task: Task, attempt: Attempt | None, settlement: Settlement | None) -> bytes:
    """The encoded TaskResult; `attempt` is the latest, `settlement` what is stored for it (TASK-060 to TASK-065)."""
    return joined({"task": status(scope, task).to_json()}, outcome=outcome(task, attempt, settlement))


def outcome(task: Task, attempt: Attempt | None, settlement: Settlement | None) -> bytes:
    """The encoded outcome of a task, `null` until it is terminal, whatever was reported (TASK-125, TASK-126).

    Arguments as for `result`. The deciding attempt ended when the task did (TASK-129).
    """
    match task.state:
        case "queued" | "active":
            return b"null"
        case "cancelled":
            return encode(task_outcome_to_json(Cancelled()))
        case _:
            if attempt is None or attempt.finished_at != task.terminal_at:
                raise contradiction()
            return _success(attempt, settlement) if task.state == "succeeded" else _failure(attempt, settlement)


def _success(attempt: Attempt, settlement: Settlement | None) -> bytes:
    if attempt.verdict != "success" or settlement is None or settlement.output is None:
        raise contradiction()
    members: dict[str, JsonValue] = {
        "kind": "succeeded",
        "attempt_id": attempt.id,
        "quiescence": attempt.quiescence,
        "execution_may_have_started": attempt.may_have_started,
    }
    return joined(members, output=settlement.output)


def _failure(attempt: Attempt, settlement: Settlement | None) -> bytes:
    failed = TaskFailed(
        attempt_id=attempt.id,
        quiescence=attempt.quiescence,
        execution_may_have_started=attempt.may_have_started,
        failure=failure_of(attempt, settlement),
    )
    return encode(task_outcome_to_json(failed))


def failure_of(attempt: Attempt, settlement: Settlement | None) -> Failure:
    """The failure that a finished attempt stands for, as it was reported (chapter 06, Result, DLV-089)."""
    if settlement is None:
        if attempt.state != "lost":
            raise contradiction()
        return AttemptLost()
    report = SettleCommand.from_json(decode(settlement.command)).report
    match report:
        case CompletedReport(outcome=ProgramError() as error):
            return ApplicationFailure(error=error)
        case CompletedReport():
            raise contradiction()
        case FailedReport():
            return ExecutionFailure(error=report.error, phase=report.phase, cleanup_error=report.cleanup_error)
        case _:
            assert_never(report)


def history_record(record: History) -> JsonValue:
    """One element of the history reply."""
    return HistoryRecord(
        sequence=record.sequence,
        task_id=record.task_id,
        attempt_id=record.attempt_id,
        at=record.at,
        reason=record.reason,
    ).to_json()


def event_without_data(scope: Scope, task: Task, attempt: Attempt, origin_trace: bytes | None) -> dict[str, JsonValue]:
    """The invocation event of an attempt but for its data. The same records give the same event (DLV-013, DLV-045).

    Task and run are the same in every attempt (DLV-043). The trace is the attempt's own where tracing was on when it
    was created, else the accepted origin (DLV-044, TRC-014, TRC-015).
    """
    carrier = attempt.trace or origin_trace
    trace = None if carrier is None else TraceContext.shaped(decode(carrier))
    event = new_invocation_event(
        event_id=attempt.event_id,
        time_ms=attempt.claimed_at,
        tenant_id=scope.tenant_id,
        namespace=scope.namespace,
        run_id=task.run_id,
        task_id=task.id,
        attempt_id=attempt.id,
        attempt_no=attempt.number,
        data=None,
        workflow_id=task.workflow_id,
        activation_id=_activation_id(task),
        parent_workflow_id=task.parent_workflow_id,
        root_workflow_id=task.root_workflow_id,
        traceparent=None if trace is None else trace.traceparent,
        tracestate=None if trace is None else trace.tracestate,
    )
    del event["data"]
    return event


def report_identity(
    scope: Scope, task: Task, attempt: Attempt, descriptor: bytes, origin_trace: bytes | None
) -> ReportIdentity:
    """What a report of this attempt must carry (chapter 07, Settlement)."""
    event = event_without_data(scope, task, attempt, origin_trace)
    return ReportIdentity.of(event, Descriptor.from_json(decode(descriptor)))


def assigned(scope: Scope, reply: Assigned) -> bytes:
    """The encoded AcquireReply of a poll that holds an attempt, with the task's own descriptor (DLV-041)."""
    task, attempt, body = reply.task, reply.attempt, reply.body
    members: dict[str, JsonValue] = {
        "descriptor": decode(body.descriptor),
        "lease": _lease(scope, attempt),
        "authority": authority(scope, task, attempt, reply.now).to_json(),
        "attempt_deadline": attempt.deadline,
    }
    activation_id = _activation_id(task)
    if activation_id is not None:
        members["workflow_activation_id"] = activation_id
    event = joined(event_without_data(scope, task, attempt, body.origin_trace), data=body.data)
    return joined({"disposition": "assigned", "sequence": reply.sequence}, assignment=joined(members, event=event))


def attempt_snapshot(
    scope: Scope, task: Task, attempt: Attempt, body: TaskBody, settlement: Settlement | None
) -> bytes:
    """The encoded AttemptSnapshot (chapter 06, Attempt)."""
    members: dict[str, JsonValue] = {
        "descriptor": decode(body.descriptor),
        "lease": _lease(scope, attempt),
        "deadline": attempt.deadline,
        "authority_deadline": attempt.authority_deadline,
        "state": attempt.state,
        "execution_may_have_started": attempt.may_have_started,
        "last_renewal": _last_renewal(scope, attempt),
        "quiescence": attempt.quiescence,
        "finished_at": attempt.finished_at,
    }
    event = joined(event_without_data(scope, task, attempt, body.origin_trace), data=body.data)
    return joined(members, event=event, settlement=_settlement(task, settlement))


def receipt_of(task: Task, settlement: Settlement) -> SettlementReceipt:
    """The receipt of an accepted settlement, the same in every reply."""
    return SettlementReceipt(
        operation_id=settlement.operation_id,
        task_id=task.id,
        attempt_id=settlement.attempt_id,
        accepted_at=settlement.accepted_at,
    )


def session(scope: Scope, record: Session) -> WorkerSession:
    return WorkerSession(
        id=record.id,
        scope=scope,
        queue=record.queue,
        concurrency=record.concurrency,
        expires_at=record.expires_at,
    )


def joined(members: dict[str, JsonValue], **encoded: bytes) -> bytes:
    """A compact object of at least one plain member, with further members that are compact JSON already.

    What was stored is handed back as it is, so values keep their identity (JSON-046).
    """
    return encode(members)[:-1] + b"".join(b',"%s":%s' % (n.encode(), text) for n, text in encoded.items()) + b"}"


def _activation_id(task: Task) -> str | None:
    return task.id if task.activation else None


def _lease(scope: Scope, attempt: Attempt) -> JsonValue:
    return Lease(owner=owner_of(scope, attempt), expires_at=attempt.lease_expires_at).to_json()


def _last_renewal(scope: Scope, attempt: Attempt) -> JsonValue:
    if attempt.renew_intent is None:
        return None
    owner = owner_of(scope, attempt)
    return RenewCommand(owner=owner, sequence=attempt.renew_sequence, intent=attempt.renew_intent).to_json()


def _settlement(task: Task, settlement: Settlement | None) -> bytes:
    if settlement is None:
        return b"null"
    return joined({"receipt": receipt_of(task, settlement).to_json()}, command=whole_command(settlement))
