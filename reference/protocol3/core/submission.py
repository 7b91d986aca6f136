"""Accepting a submission, or recognising it (chapter 06)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import Descriptor
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.strict_json import encode
from protocol3.core.creation import create_task
from protocol3.core.records import Submission, Task, TaskBody
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict

SPACE = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What an idempotency key stands for: the identity it was accepted with, and the task as it is now."""

    identity: bytes
    task: Task
    body: TaskBody


def known(identity: bytes, submitted: Submitted | None) -> Verdict | None:
    """Replay or conflict of a key that is taken; None for a new one (TASK-104, TASK-105). Replies as `submit`."""
    if submitted is None:
        return None
    if submitted.identity != identity:
        return Rejected(code="conflict")
    return Replay(reply=(submitted.task, submitted.body))


def submit(
    command: SubmitCommand,
    identity: bytes,
    data: bytes,
    descriptor: Descriptor,
    submitted: Submitted | None,
    *,
    scope_id: int,
    clock: Clock,
    fresh: Fresh,
) -> Verdict:
    """Replies with the task and its body, new or as they stand (TASK-100, TASK-104, TASK-229).

    `identity` and `data` (compact) are those of the input, made once however often this is decided.
    The insertion of the key is the guard: who loses is decided again and finds the winner (TASK-110).
    """
    verdict = known(identity, submitted)
    if verdict is not None:
        return verdict
    draft = Draft()
    task = create_task(
        draft,
        clock=clock,
        fresh=fresh,
        scope_id=scope_id,
        input=command.input,
        descriptor=encode(descriptor.to_json()),
        origin_trace=None if command.origin_trace is None else encode(command.origin_trace.to_json()),
        idempotency_key=command.idempotency_key,
        data=data,
    )
    draft.write(
        Submission(scope_id=scope_id, space=SPACE, key=command.idempotency_key, subject_id=task.id, identity=identity)
    )
    body = next(record for record in draft.records if isinstance(record, TaskBody))
    return draft.accepted((task, body), clock)
