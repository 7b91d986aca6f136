"""Submitting a workflow: replay before anything else, then creation (WF-010 to WF-022)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import Descriptor
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.strict_json import encode
from protocol3.core.records import Submission, Workflow
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.creation import create_workflow
from protocol3.core.workflow.views import snapshot_of

#: The key space of workflows in `Submission`, apart from that of tasks (WF-011).
SPACE = "workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionState:
    """What the key is already bound to, if anything, with that workflow as it is now."""

    scope_id: int
    submission: Submission | None
    workflow: Workflow | None
    clock: Clock


def decide_replay(state: SubmissionState, command: SubmitCommand, identity: bytes) -> Replay | Rejected | None:
    """The answer of a key that is bound already (WF-013, WF-015); None for a free key. Needs no program (WF-016)."""
    if state.submission is None or state.workflow is None:
        return None
    if state.submission.identity != identity:
        return Rejected(code="conflict")
    return Replay(reply=snapshot_of(command.input.scope, state.workflow))


def decide_submission(
    state: SubmissionState,
    command: SubmitCommand,
    identity: bytes,
    data: bytes,
    descriptor: Descriptor,
    fresh: Fresh,
) -> Verdict:
    """Replies with a WorkflowSnapshot, of a root (WF-020). The insertion of the key is the guard (WF-018).

    `identity` and `data` are those of the command's input, which take long to make of a long one. Nothing looks at the
    protocol of the program: one that is no controller fails later (WF-019).
    """
    replay = decide_replay(state, command, identity)
    if replay is not None:
        return replay
    draft = Draft()
    trace = command.origin_trace
    workflow = create_workflow(
        draft,
        clock=state.clock,
        fresh=fresh,
        scope_id=state.scope_id,
        input=command.input,
        descriptor=encode(descriptor.to_json()),
        origin_trace=None if trace is None else encode(trace.to_json()),
        idempotency_key=command.idempotency_key,
        data=data,
    )
    draft.write(
        Submission(
            scope_id=state.scope_id,
            space=SPACE,
            key=command.idempotency_key,
            subject_id=workflow.id,
            identity=identity,
        )
    )
    return draft.accepted(snapshot_of(command.input.scope, workflow), state.clock)
