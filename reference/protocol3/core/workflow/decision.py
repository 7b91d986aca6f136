"""Applying what an activation returned: one atomic step, or nothing (6.3 steps 1 and 6 to 11, DEC-004, DEC-046)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from protocol3.contract.models.common import ApplicationError
from protocol3.contract.models.decisions import ChildCommand, Complete, Continue, Fail, Suspend, Wait, WaitTarget
from protocol3.contract.models.submission import SubmitInput
from protocol3.contract.refusal import spelled
from protocol3.contract.strict_json import encode
from protocol3.core import records as r
from protocol3.core.obligations import settle
from protocol3.core.verdict import Clock, Draft, Fresh, Replay, Verdict
from protocol3.core.workflow.activation import submitted
from protocol3.core.workflow.children import (
    NewChild,
    over_budget,
    register,
    too_deep,
    too_many_live,
)
from protocol3.core.workflow.ending import begin_failing, discard, end, service_error
from protocol3.core.workflow.inputs import OwnedChild, deliver
from protocol3.core.workflow.judgement import Judged
from protocol3.core.workflow.resume import resume_with_children, resume_with_wake
from protocol3.core.workflow.states import Problem, changed
from protocol3.core.workflow.waits import Buffered, installed, over


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionState:
    """What the decision touches.

    `children` are those its commands and `until` name; `pending` the ended children not delivered yet, oldest first,
    and only for a continue; `results` of the ended ones of both (None: too large). `live_tasks` and `live_workflows`
    count what is owned and has not ended, beside the activation itself; `owned_end` is the latest end of anything
    owned. `used` and `event` belong to the key of a wait.
    """

    obligation: r.Obligation | None
    drain: r.Obligation | None
    workflow: r.Workflow
    body: r.WorkflowBody
    activation: r.Activation
    children: Mapping[str, OwnedChild]
    pending: tuple[OwnedChild, ...]
    results: Mapping[str, bytes | None]
    live_tasks: int
    live_workflows: int
    owned_end: int | None
    used: r.Wait | None
    event: Buffered | None
    clock: Clock


def decide_application(
    state: DecisionState, held: r.Obligation, judged: Judged | ApplicationError, fresh: Fresh
) -> Verdict:
    """Meets an obligation of kind decision; nothing to reply. The clock is that of the application (DEC-023).

    ACT-048.
    """
    if state.obligation is None or state.obligation.version != held.version:
        return Replay(reply=None)
    clock, workflow = state.clock.at_least(state.owned_end), state.workflow
    if workflow.state != "running" or workflow.activation_id != held.subject:  # ACT-009, DRN-009
        return discard((held,), state.drain, clock)
    draft = Draft()
    settle(draft, held)
    apply_decision(draft, state, judged, clock=clock, fresh=fresh)
    return draft.accepted(None, clock)


def apply_decision(
    draft: Draft, state: DecisionState, judged: Judged | ApplicationError, *, clock: Clock, fresh: Fresh
) -> None:
    """What the running activation decided, or why it fails its workflow."""
    workflow = state.workflow
    applied = judged if isinstance(judged, ApplicationError) else _apply(state, judged, clock, fresh)
    draft.guard(changed(workflow))
    match applied:
        case Draft():
            draft.extend(applied)
        case ApplicationError():
            begin_failing(draft, workflow, applied, clock=clock, fresh=fresh)
        case Problem(message=message):
            error = service_error("decision_application_failed", message)
            begin_failing(draft, workflow, error, clock=clock, fresh=fresh)
        case _:
            assert_never(applied)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One application in the making, on a draft of its own: a problem leaves nothing of it (DEC-041, DEC-046)."""

    state: DecisionState
    judged: Judged
    workflow: r.Workflow
    clock: Clock
    fresh: Fresh
    draft: Draft


def _apply(state: DecisionState, judged: Judged, clock: Clock, fresh: Fresh) -> Draft | Problem:
    """Steps 6 to 11 (DEC-020): one draft for everything, so all of it or nothing (DEC-004)."""
    decision = judged.decision
    if decision.revision != state.activation.revision:  # DEC-042
        return Problem(message="revision: is not the revision of the activation")
    workflow = replace(state.workflow, revision=state.workflow.revision + 1)  # the one place where it grows (WF-051)
    step = _Step(state=state, judged=judged, workflow=workflow, clock=clock, fresh=fresh, draft=Draft())
    match decision:
        case Complete():
            problem = _complete(step, decision)
        case Fail(error=error):  # with or without unfinished children (DEC-052)
            begin_failing(step.draft, workflow, error, clock=clock, fresh=fresh)
            return step.draft
        case Suspend() | Continue() | Wait():
            problem = _checkpoint(step, decision)
        case _:
            assert_never(decision)
    return problem or step.draft


def _complete(step: _Step, decision: Complete) -> Problem | None:
    """Step 7, then T5 (DEC-043, DEC-050)."""
    if step.state.live_tasks or step.state.live_workflows:
        return Problem(message="complete: owned work has not ended")
    step.draft.write(r.Outcome(workflow_id=step.workflow.id, kind="succeeded", body=encode(decision.output)))
    end(step.draft, step.workflow, "succeeded", clock=step.clock, fresh=step.fresh)
    return None


def _checkpoint(step: _Step, decision: Suspend | Continue | Wait) -> Problem | None:
    """Step 8, then going on at once (T3) or waiting (T2); the workflow is written either way."""
    children = _stage(step, decision.checkpoint.commands)
    if isinstance(children, Problem):
        return children
    checkpoint = r.Checkpoint(
        workflow_id=step.workflow.id,
        continuation=decision.checkpoint.continuation,
        state=encode(decision.checkpoint.state),
        until=decision.until if isinstance(decision, Suspend) else None,
    )
    match decision:
        case Continue():
            return _deliver(step, checkpoint, step.state.pending)
        case Suspend(until=until):
            return _suspend(step, checkpoint, until, children)
        case Wait(wait=wanted):
            return _wait(step, checkpoint, wanted)
        case _:
            assert_never(decision)


def _stage(step: _Step, commands: tuple[ChildCommand, ...]) -> dict[str, OwnedChild] | Problem:
    """Step 8: each command in order finds its child or registers it; the children known by then, by key (CHD-010).

    What is registered is seen by nobody before the whole step is committed (CHD-020).
    """
    children, parent = dict(step.state.children), submitted(step.state.body)
    new = live = 0
    for index, command in enumerate(commands):
        wanted = command.submission(scope=parent.scope, correlation_key=parent.correlation_key)
        bound = children.get(command.key)
        if bound is not None:  # whatever its state (CHD-014)
            reason = _unlike(bound.child, command.kind, wanted)
            if reason is not None:
                return Problem(message=f"commands[{index}]: key {spelled(command.key)} {reason}")
            continue
        new += 1
        live += command.kind == "workflow"
        reason = _beyond_limits(step.state, command.kind, new, live)
        if reason is not None:
            return Problem(message=f"commands[{index}]: {reason}")
        child = NewChild(
            kind=command.kind,
            key=command.key,
            input=wanted,
            descriptor=step.judged.descriptors[command.program],  # pinned (CHD-015)
            origin_trace=step.judged.processing_trace or step.state.body.origin_trace,
        )
        registered = register(step.draft, step.workflow, child, clock=step.clock, fresh=step.fresh)
        children[command.key] = OwnedChild(child=registered, terminal_at=None)
    return children


def _unlike(bound: r.Child, kind: str, wanted: SubmitInput) -> str | None:
    """CHD-011 to CHD-013: the same key means the same work, and never a branch."""
    if bound.fork_key is not None:
        return "belongs to a fork"
    if bound.kind != kind or bound.identity != wanted.identity():
        return "is registered with another submission"
    return None


def _beyond_limits(state: DecisionState, kind: str, new: int, live: int) -> str | None:
    """CHD-023, for the last of `new` children of which `live` are workflows."""
    reason = over_budget(state.activation, new)
    if reason is not None or kind != "workflow":
        return reason
    return too_deep(state.workflow) or too_many_live(state.live_workflows, live)


def _suspend(
    step: _Step, checkpoint: r.Checkpoint, until: tuple[str, ...], children: Mapping[str, OwnedChild]
) -> Problem | None:
    """CHD-050, CHD-051, DEC-044: any children of the workflow, new, old, delivered before (DEC-013, CHD-054)."""
    for index, key in enumerate(until):
        if key not in children:
            return Problem(message=f"until[{index}]: key {spelled(key)} is no child of the workflow")
    members = tuple(children[key] for key in until)
    if all(member.terminal_at is not None for member in members):
        return _deliver(step, checkpoint, members)
    step.draft.write(replace(step.workflow, state="waiting", activation_id=None), checkpoint)
    return None


def _deliver(step: _Step, checkpoint: r.Checkpoint, chosen: tuple[OwnedChild, ...]) -> Problem | None:
    delivery = deliver(chosen, step.state.results)
    if isinstance(delivery, Problem):
        return delivery
    body = step.state.body
    resume_with_children(step.draft, step.workflow, body, checkpoint, delivery, clock=step.clock, fresh=step.fresh)
    return None


def _wait(step: _Step, checkpoint: r.Checkpoint, wanted: WaitTarget) -> Problem | None:
    """The decision's acceptance time is the base of the deadline, and the wait may be over at once (TMR-012).

    Then nobody sees it waiting (WF-053). Commands were registered before, in this same step (TMR-005).
    """
    draft, workflow, event, now = step.draft, step.workflow, step.state.event, step.clock.now
    wait = installed(workflow.id, wanted, step.state.used, event, now)
    if isinstance(wait, Problem):
        return wait
    draft.write(wait)
    ended = over(wait, event, now)
    if ended is not None:
        resume_with_wake(draft, workflow, step.state.body, checkpoint, ended, clock=step.clock, fresh=step.fresh)
        return None
    draft.write(replace(workflow, state="waiting", activation_id=None, wait_key=wait.key), checkpoint)  # TMR-006
    if wait.deadline is not None:
        draft.write(r.Agenda(kind="wait", ref=workflow.id, scope_id=workflow.scope_id, due=wait.deadline))
    return None
