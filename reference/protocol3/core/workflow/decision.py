"""Applying what an activation returned: one atomic step, or nothing (6.3 steps 1 and 6 to 11, DEC-004, DEC-046)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from protocol3.contract.models.common import ApplicationError
from protocol3.contract.models.decisions import ChildCommand, Complete, Continue, Fail, Suspend, Wait
from protocol3.contract.strict_json import encode
from protocol3.core import records as r
from protocol3.core.obligations import settle
from protocol3.core.verdict import AgendaWake, Clock, Draft, Fresh, ObligationWake, Replay, Verdict
from protocol3.core.workflow.activation import submitted
from protocol3.core.workflow.children import (
    NewChild,
    child_input,
    over_budget,
    register,
    too_deep,
    too_many_live,
)
from protocol3.core.workflow.ending import begin_failing, end, service_error
from protocol3.core.workflow.inputs import OwnedChild, deliver
from protocol3.core.workflow.judgement import Judged
from protocol3.core.workflow.resume import resume_with_children, resume_with_wake
from protocol3.core.workflow.states import Problem, changed
from protocol3.core.workflow.waits import Buffered, installed, over


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionState:
    """What the decision touches.

    `children` are those its commands and `until` name; `pending` the ended children not delivered yet, oldest first,
    and only for a continue; `results` of the ended ones of both (None: too large). `owned_live` counts live tasks and
    workflows, `owned_end` is the latest end of anything owned. `used` and `event` belong to the key of a wait.
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
    """Meets an obligation of kind decision; nothing to reply."""
    if state.obligation is None or state.obligation.version != held.version:
        return Replay(reply=None)
    clock, workflow = state.clock.at_least(state.owned_end), state.workflow
    if workflow.state != "running" or workflow.activation_id != held.subject:
        return _discarded(state, held, clock)
    applied = judged if isinstance(judged, ApplicationError) else _apply(state, judged, clock, fresh)
    draft = Draft()
    draft.guard(changed(workflow))
    settle(draft, held)
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
    return draft.accepted(None, clock)


def _discarded(state: DecisionState, held: r.Obligation, clock: Clock) -> Verdict:
    """Step 1: the workflow ended or drains; a drain may have waited for exactly this activation."""
    draft = Draft()
    settle(draft, held)
    if state.drain is not None:
        draft.wake(ObligationWake(obligation=state.drain))
    return draft.accepted(None, clock)


def _apply(state: DecisionState, judged: Judged, clock: Clock, fresh: Fresh) -> Draft | Problem:
    """Steps 6 to 11 on a draft of their own: a problem leaves nothing of it (DEC-041)."""
    decision = judged.decision
    if decision.revision != state.activation.revision:
        return Problem(message="revision: is not the revision of the activation")
    draft = Draft()
    workflow = replace(state.workflow, revision=state.workflow.revision + 1)
    match decision:
        case Complete():
            if state.live_tasks or state.live_workflows:
                return Problem(message="complete: owned work has not ended")
            draft.write(r.Outcome(workflow_id=workflow.id, kind="succeeded", body=encode(decision.output)))
            end(draft, workflow, "succeeded", clock=clock, fresh=fresh)
            return draft
        case Fail():
            begin_failing(draft, workflow, decision.error, clock=clock, fresh=fresh)
            return draft
        case Suspend() | Continue() | Wait():
            staged = _stage(draft, state, judged, decision.commands, clock, fresh)
            if isinstance(staged, Problem):
                return staged
            checkpoint = r.Checkpoint(
                workflow_id=workflow.id,
                continuation=decision.continuation,
                state=encode(decision.state),
                until=decision.until if isinstance(decision, Suspend) else None,
            )
            return _go_on(draft, state, workflow, checkpoint, decision, staged, clock, fresh) or draft
        case _:
            assert_never(decision)


def _stage(
    draft: Draft, state: DecisionState, judged: Judged, commands: tuple[ChildCommand, ...], clock: Clock, fresh: Fresh
) -> dict[str, OwnedChild] | Problem:
    """Step 8: each command in order finds its child or registers it; the children known by then, by key (CHD-010)."""
    children, parent = dict(state.children), submitted(state.body)
    new = live = 0
    for command in commands:
        wanted, bound = child_input(parent, command), children.get(command.key)
        if bound is not None:
            if bound.child.fork_key is not None:
                return Problem(message="commands: a key belongs to a fork")
            if bound.child.kind != command.kind or bound.child.identity != wanted.identity():
                return Problem(message="commands: a key is registered with another submission")
            continue
        new += 1
        live += command.kind == "workflow"
        reason = over_budget(state.activation, new)
        if reason is None and command.kind == "workflow":
            reason = too_deep(state.workflow) or too_many_live(state.live_workflows, live)
        if reason is not None:
            return Problem(message=f"commands: {reason}")
        child = NewChild(
            kind=command.kind,
            key=command.key,
            input=wanted,
            descriptor=judged.descriptors[command.program],
            origin_trace=judged.processing_trace or state.body.origin_trace,
        )
        registered = register(draft, state.workflow, child, clock=clock, fresh=fresh)
        children[command.key] = OwnedChild(child=registered, terminal_at=None)
    return children


def _go_on(
    draft: Draft,
    state: DecisionState,
    workflow: r.Workflow,
    checkpoint: r.Checkpoint,
    decision: Suspend | Continue | Wait,
    children: Mapping[str, OwnedChild],
    clock: Clock,
    fresh: Fresh,
) -> Problem | None:
    """Step 11 of the checkpoint kinds: go on at once (T3) or wait (T2); the workflow is written either way."""
    match decision:
        case Continue():
            return _deliver(draft, state, workflow, checkpoint, state.pending, clock, fresh)
        case Suspend(until=until):
            if not children.keys() >= set(until):
                return Problem(message="until: names a key that is no child of the workflow")
            members = tuple(children[key] for key in until)
            if all(member.terminal_at is not None for member in members):
                return _deliver(draft, state, workflow, checkpoint, members, clock, fresh)
            draft.write(replace(workflow, state="waiting", activation_id=None), checkpoint)
            return None
        case Wait():
            return _wait(draft, state, workflow, checkpoint, decision, clock, fresh)
        case _:
            assert_never(decision)


def _deliver(
    draft: Draft,
    state: DecisionState,
    workflow: r.Workflow,
    checkpoint: r.Checkpoint,
    chosen: tuple[OwnedChild, ...],
    clock: Clock,
    fresh: Fresh,
) -> Problem | None:
    delivery = deliver(chosen, state.results)
    if isinstance(delivery, Problem):
        return delivery
    resume_with_children(draft, workflow, state.body, checkpoint, delivery, clock=clock, fresh=fresh)
    return None


def _wait(
    draft: Draft,
    state: DecisionState,
    workflow: r.Workflow,
    checkpoint: r.Checkpoint,
    decision: Wait,
    clock: Clock,
    fresh: Fresh,
) -> Problem | None:
    """The wait is installed with the decision's acceptance time as its base, and may be over at once (TMR-012)."""
    wait = installed(workflow.id, decision.wait, state.used, state.event, clock.now)
    if isinstance(wait, Problem):
        return wait
    draft.write(wait)
    ended = over(wait, state.event, clock.now)
    if ended is not None:
        resume_with_wake(draft, workflow, state.body, checkpoint, ended, clock=clock, fresh=fresh)
        return None
    draft.write(replace(workflow, state="waiting", activation_id=None, wait_key=wait.key), checkpoint)
    if wait.deadline is not None:
        draft.write(r.Agenda(kind="wait", ref=workflow.id, scope_id=workflow.scope_id, due=wait.deadline))
        draft.wake(AgendaWake(due=wait.deadline))
    return None
