"""The durable records, one frozen dataclass per table, fields in column order.

A record is what the store keeps and what a decision reads and returns; the store maps it to its table by
position (a test compares fields and columns). Control records are small and change; bodies are written once and
hold application JSON as compact bytes. All instants are scope time in Unix milliseconds unless the name says real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from protocol3.contract.vocabulary import (
    AttemptState,
    HistoryReason,
    Quiescence,
    RenewalIntent,
    TaskState,
    WorkflowState,
)

#: What an accepted report decides about its attempt (chapter 07, What a report decides).
ReportVerdict: TypeAlias = Literal["success", "application", "retryable", "permanent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A worker session (DLV-001). `version` guards it against concurrent extension."""

    id: str
    scope_id: int
    queue: str
    concurrency: int
    expires_at: int
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Latest completed acquisition of one consumer: empty when `task_id` is None (chapter 07, Acquisition).

    It only moves on; nothing removes it or sets it back (DLV-021, DLV-312).
    """

    session_id: str
    consumer_id: int
    sequence: int
    task_id: str | None
    attempt_id: str | None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Control record of a task. `version` covers its attempts, settlements, history and local-result budget."""

    id: str
    scope_id: int
    queue: str
    run_id: str
    state: TaskState
    submitted_at: int
    available_at: int
    terminal_at: int | None
    cancel_requested_at: int | None
    attempt_count: int
    current_attempt_id: str | None
    latest_attempt_id: str | None
    history_length: int
    max_attempts: int
    retry_delay_ms: int
    attempt_timeout_ms: int
    correlation_key: str | None
    workflow_id: str | None
    activation: bool
    parent_workflow_id: str | None
    root_workflow_id: str | None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBody:
    """Written once at acceptance (TASK-101, TASK-108): the submitted data, the pinned descriptor, the first origin.

    The rest of the normalised input is in the task and in the descriptor, whose program is the submitted one.
    """

    task_id: str
    idempotency_key: str | None
    data: bytes
    descriptor: bytes
    origin_trace: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One public idempotency key; `space` is `task` or `workflow` (TASK-103, WF-011). Insertion is the guard."""

    scope_id: int
    space: str
    key: str
    subject_id: str
    identity: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt with its lease (DLV-027). `verdict` is the classification of the accepted report, if any.

    `trace` is the carrier of its event as compact JSON; None where it is the origin of the task (TRC-014).
    """

    id: str
    task_id: str
    number: int
    lease_id: str
    session_id: str
    consumer_id: int
    event_id: str
    claimed_at: int
    deadline: int
    authority_deadline: int
    lease_expires_at: int
    state: AttemptState
    may_have_started: bool
    renew_sequence: int
    renew_intent: RenewalIntent | None
    quiescence: Quiescence
    settled_at: int | None
    verdict: ReportVerdict | None
    finished_at: int | None
    trace: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The accepted settlement command of an attempt, its key (DLV-082), never rewritten (DLV-083, DLV-086).

    `command` is its compact JSON with null in place of the output of a success, which is kept apart in `output`, so
    that a result or a decision is read without the rest. `core.settlement.whole_command` joins them.
    """

    attempt_id: str
    operation_id: str
    command: bytes
    output: bytes | None
    identity: bytes
    accepted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One history record of a task; sequences start at 1 without gaps (TASK-132)."""

    task_id: str
    sequence: int
    at: int
    reason: HistoryReason
    attempt_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Control record of a workflow. `version` covers child keys, forks, waits, inbox and checkpoint.

    `state` is one of running, waiting, failing, cancelling, succeeded, failed, cancelled. `wait_key` names the
    open external wait. `inbox_count` and `inbox_bytes` count pending events only (EVT-018).
    """

    id: str
    scope_id: int
    state: WorkflowState
    revision: int
    activation_id: str | None
    submitted_at: int
    terminal_at: int | None
    correlation_key: str | None
    parent_id: str | None
    root_id: str | None
    owner_key: str | None
    depth: int
    wait_key: str | None
    inbox_count: int
    inbox_bytes: int
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowBody:
    """Written once: normalised input, pinned descriptor, origin and first continuation (WF-010, FRK-004).

    `input` holds null in place of the data, which may be large and goes into every activation as it is (ACT-002).
    """

    workflow_id: str
    idempotency_key: str | None
    input: bytes
    data: bytes
    descriptor: bytes
    origin_trace: bytes | None
    entrypoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Intended (failing, cancelling) or final outcome; shown only in a terminal state (WF-040).

    `kind` is succeeded, failed or cancelled; `body` is the output or the error object as compact JSON.
    """

    workflow_id: str
    kind: str
    body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a waiting workflow resumes with. `until` holds the awaited child keys of a suspend, None for other waits."""

    workflow_id: str
    continuation: str
    state: bytes
    until: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Budgets of one logical activation over all its attempts (LOC-009, FRK-017, CHD-024)."""

    task_id: str
    workflow_id: str
    revision: int
    local_count: int
    local_bytes: int
    fork_count: int
    fork_bytes: int
    new_children: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationContext:
    """The frozen part of an activation's context (ACT-020), written with the activation."""

    task_id: str
    continuation: str
    state: bytes
    inputs: bytes
    wake: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """One accepted local record with the attempt that stored it (LOC-004)."""

    activation_id: str
    key: str
    attempt_id: str
    record: bytes
    identity: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """One accepted fork with the attempt that registered it; `identity` is the digest of the request (FRK-010)."""

    workflow_id: str
    key: str
    activation_id: str
    attempt_id: str
    identity: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Ownership link of a task child, workflow child or branch (CHD-010). Its state is read from the child itself.

    `kind` is task or workflow; `identity` is the digest of the normalised submission. `delivered_in` is the latest
    activation whose inputs held the child: applying that activation's decision consumed it (CHD-053).
    """

    workflow_id: str
    key: str
    kind: str
    child_id: str
    fork_key: str | None
    identity: bytes
    delivered_in: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """An external wait ever installed; its key is one-shot (TMR-003). It is open while `Workflow.wait_key` names it."""

    workflow_id: str
    key: str
    kind: str
    deadline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Receipt of an accepted event, kept for good (EVT-010, EVT-012).

    The event is pending while its workflow is open and no wait with its key was closed; wait keys are one-shot, so
    only the workflow's counters have to remember that (EVT-018).
    """

    workflow_id: str
    key: str
    source: str
    event_id: str
    identity: bytes
    size: int
    accepted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxBody:
    """The complete envelope of an accepted event (EVT-001)."""

    workflow_id: str
    key: str
    event: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Obligation:
    """Something that must happen after a commit (RCV-001).

    `kind`: decision (an activation ended), child (an owned task or workflow ended), wake (an awaited event was
    accepted), drain (a failing or cancelling workflow). `subject` is the task, child or key concerned. `created_at` is
    scope time (RCV-021); `ready_real` is real time: a new one is ready a little later than now because the process
    that commits it handles it at once and others only take over what was left.
    """

    id: str
    scope_id: int
    kind: str
    workflow_id: str
    subject: str
    created_at: int
    ready_real: int
    tries: int
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """Something due at an instant of its scope; may be early, never late.

    `kind`: lease (ref is the task), wait (ref is the workflow).
    """

    kind: str
    ref: str
    scope_id: int
    due: int


Record: TypeAlias = (
    Session
    | Cursor
    | Task
    | TaskBody
    | Submission
    | Attempt
    | Settlement
    | History
    | Workflow
    | WorkflowBody
    | Outcome
    | Checkpoint
    | Activation
    | ActivationContext
    | Local
    | Fork
    | Child
    | Wait
    | Inbox
    | InboxBody
    | Obligation
    | Agenda
)
