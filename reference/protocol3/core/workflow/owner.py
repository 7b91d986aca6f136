"""Who may speak for an activation: the lease identity, then whether it is live (ACT-024, LOC-004, FRK-010)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import LeaseOwner
from protocol3.core.authority import is_live, is_stopped, live_until, owner_of
from protocol3.core.records import Activation, Attempt, Task, Workflow
from protocol3.core.verdict import Guard, Rejected
from protocol3.core.workflow.states import seen

LOST = Rejected(code="ownership_lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The activation that an owner names, with the attempt it names."""

    activation: Activation
    workflow: Workflow
    task: Task
    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the load found under an owner's names; `scope_id` is the number of the owner's scope, if it has one."""

    scope_id: int | None
    activation: Activation | None
    workflow: Workflow | None
    task: Task | None
    attempt: Attempt | None


def identify(owner: LeaseOwner, named: Named) -> Held | Rejected:
    """Not an activation, then another scope, then another lease identity (LOC-004 step 4, LOC-006)."""
    activation, workflow, task, attempt = named.activation, named.workflow, named.task, named.attempt
    if activation is None or workflow is None or task is None:
        return LOST
    if workflow.scope_id != named.scope_id:
        return Rejected(code="not_found")
    if attempt is None or owner_of(owner.scope, attempt) != owner:
        return LOST
    return Held(activation=activation, workflow=workflow, task=task, attempt=attempt)


def lost(held: Held, now: int, *, dispatched: bool) -> Rejected | None:
    """A refusal unless the owner is live (ACT-024 items 3 to 7) and, if asked for, was dispatched (LOC-007).

    A settled attempt is not (LOC-008), nor one whose workflow closes (DRN-008).
    """
    task, attempt, workflow = held.task, held.attempt, held.workflow
    current = workflow.state == "running" and workflow.activation_id == task.id and attempt.settled_at is None
    if not current or (dispatched and not attempt.may_have_started):
        return LOST
    if is_live(task, attempt, now) and not is_stopped(task, attempt, now):
        return None
    return Rejected(code="ownership_lost", guards=(seen(workflow), task_seen(task)))


def authorised_until(held: Held) -> int:
    """First instant at which a live owner is no longer live (ACT-024 item 7)."""
    return min(live_until(held.attempt), held.attempt.deadline)


def task_seen(task: Task) -> Guard:
    """The guard of a decision that relied on the task and its attempts and leaves them as they are."""
    return Guard(kind="task", id=task.id, version=task.version, seen=True)
