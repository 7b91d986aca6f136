"""External waits: installing one, selecting its wake, resuming with it (chapter 16)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from protocol3.contract.limits import MAX_TIMESTAMP_MS
from protocol3.contract.models.decisions import EventWait, TimerWait, WaitTarget
from protocol3.contract.refusal import spelled
from protocol3.contract.strict_json import encode
from protocol3.core.records import Inbox, InboxBody, Wait, Workflow
from protocol3.core.workflow.compact import compact_object
from protocol3.core.workflow.states import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffered:
    """The accepted event of a wait's key."""

    receipt: Inbox
    body: InboxBody


def installed(
    workflow_id: str, wanted: WaitTarget, used: Wait | None, event: Buffered | None, now: int
) -> Wait | Problem:
    """The wait that a decision accepted at `now` installs (TMR-002 to TMR-004).

    `used` is an earlier wait with the same key, `event` an event accepted for it.
    """
    if used is not None:
        return Problem(message=f"wait.key: {spelled(wanted.key)} was used by an earlier wait")
    deadline: int | None
    match wanted:
        case TimerWait(delay_ms=delay):
            if event is not None:
                return Problem(message=f"wait.key: {spelled(wanted.key)} has an event already, and this is a timer")
            kind, deadline = "timer", now + delay
        case EventWait(timeout_ms=timeout):
            kind, deadline = "event", None if timeout is None else now + timeout
        case _:
            assert_never(wanted)
    if deadline is not None and deadline > MAX_TIMESTAMP_MS:
        return Problem(message="wait: its deadline lies beyond the last instant")
    return Wait(workflow_id=workflow_id, key=wanted.key, kind=kind, deadline=deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A wait that is over, why, and the event accepted for its key, if there is one."""

    wait: Wait
    by: Literal["event", "timeout", "timer"]
    event: Buffered | None


def over(wait: Wait, event: Buffered | None, now: int) -> Over | None:
    """What ends the wait at `now`, if anything does (TMR-010 to TMR-013).

    The event's acceptance decides against the deadline, not the moment of the evaluation.
    """
    if wait.kind == "event" and event is not None and _in_time(event, wait.deadline):
        return Over(wait=wait, by="event", event=event)
    if wait.deadline is not None and now >= wait.deadline:
        return Over(wait=wait, by="timer" if wait.kind == "timer" else "timeout", event=event)
    return None


def _in_time(event: Buffered, deadline: int | None) -> bool:
    """TMR-011: accepted at the deadline is too late."""
    return deadline is None or event.receipt.accepted_at < deadline


def wake(over: Over) -> bytes:
    """The wake object, compact (TMR-020). An event is whole in it; its trace is the event's alone (TRC-018)."""
    members = {"kind": encode(over.by), "key": encode(over.wait.key)}
    if over.by == "event":
        assert over.event is not None
        return compact_object(
            {**members, "event": over.event.body.event, "accepted_at": encode(over.event.receipt.accepted_at)}
        )
    return compact_object({**members, "deadline": encode(over.wait.deadline)})


def retired(workflow: Workflow, event: Buffered | None) -> Workflow:
    """The workflow with its wait closed and the pending event of that key gone from the inbox (TMR-015, TMR-016)."""
    workflow = replace(workflow, wait_key=None)
    if event is None:
        return workflow
    return replace(
        workflow,
        inbox_count=workflow.inbox_count - 1,
        inbox_bytes=workflow.inbox_bytes - event.receipt.size,
    )
