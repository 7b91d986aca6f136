"""Forks: branches of a workflow's own program, registered while its activation runs (chapter 14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from protocol3.contract.limits import FORK_LEDGER_BYTES, FORKS
from protocol3.contract.models.workflows import ForkCommand, ForkReceipt
from protocol3.contract.strict_json import encode
from protocol3.core.records import Fork, WorkflowBody
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.activation import submitted
from protocol3.core.workflow.children import NewChild, over_budget, register, too_deep, too_many_live
from protocol3.core.workflow.owner import Held, Named, authorised_until, identify, lost, task_seen
from protocol3.core.workflow.states import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkState:
    """`stored` is the fork already registered under the command's key, `taken` the branch keys already in use."""

    named: Named
    body: WorkflowBody | None
    stored: Fork | None
    taken: frozenset[str]
    live_workflows: int
    clock: Clock


def decide_fork(state: ForkState, command: ForkCommand, fresh: Fresh) -> Verdict:
    """Replies with a ForkReceipt; the order of the checks is FRK-010's from step 4 on.

    Fork keys are the workflow's, over all its activations (FRK-006). At once means one after the other (FRK-016).
    """
    held = identify(command.owner, state.named)
    if isinstance(held, Rejected):
        return held
    if state.stored is not None:
        return _replay(held, state.stored, command, state.clock)
    refused = lost(held, state.clock.now, dispatched=True)  # FRK-015
    if refused is not None:
        return refused
    for check in NEW_FORK_CHECKS:
        refused = check(state, held, command)
        if refused is not None:
            return refused
    return _accept(state, held, command, fresh)


def _replay(held: Held, stored: Fork, command: ForkCommand, clock: Clock) -> Verdict:
    """Binding before liveness; the attempt that registered the fork needs none (FRK-010 step 5, FRK-013)."""
    if stored.identity != command.fork.identity():  # also for a later activation (FRK-014)
        return Rejected(code="conflict")
    if stored.attempt_id != held.attempt.id:
        refused = lost(held, clock.now, dispatched=True)
        if refused is not None:
            return refused
    return Replay(reply=_receipt(command, already_accepted=True))


def _ledger(state: ForkState, held: Held, command: ForkCommand) -> Rejected | None:
    """FRK-010 step 7: the ledger is the plain sum of compact requests (LIM-012)."""
    size = held.activation.fork_bytes + command.fork.size()
    if held.activation.fork_count < FORKS and size <= FORK_LEDGER_BYTES:
        return None
    return _limit(f"an activation registers at most {FORKS} forks of {FORK_LEDGER_BYTES} bytes")


def _budget(state: ForkState, held: Held, command: ForkCommand) -> Rejected | None:
    """FRK-010 step 8."""
    return _limit(over_budget(held.activation, len(command.fork.branches)))


def _unused(state: ForkState, held: Held, command: ForkCommand) -> Rejected | None:
    """FRK-010 step 9: a fork adopts no child, whatever its submission (FRK-012)."""
    return Rejected(code="conflict") if state.taken else None


def _depth_and_live(state: ForkState, held: Held, command: ForkCommand) -> Rejected | None:
    """FRK-010 step 10."""
    live = too_many_live(state.live_workflows, len(command.fork.branches))
    return _limit(too_deep(held.workflow) or live)


#: FRK-010 steps 7 to 10, in order.
NEW_FORK_CHECKS: Final[tuple[Callable[[ForkState, Held, ForkCommand], Rejected | None], ...]] = (
    _ledger,
    _budget,
    _unused,
    _depth_and_live,
)


def _accept(state: ForkState, held: Held, command: ForkCommand, fresh: Fresh) -> Verdict:
    """The fork with every branch, or nothing (FRK-002, FRK-011); the parent goes on as it was (FRK-003).

    Branches are claimable from this commit on (FRK-005), children like any others (FRK-018), and outlive the attempt
    (FRK-019).
    """
    assert state.body is not None
    draft = Draft()
    draft.guard(changed(held.workflow), task_seen(held.task))
    parent, trace = submitted(state.body), command.processing_trace
    origin = state.body.origin_trace if trace is None else encode(trace.to_json())
    for branch in command.fork.branches:
        new = NewChild(
            kind="workflow",
            key=branch.key,
            input=branch.submission(scope=parent.scope, program=parent.program, correlation_key=parent.correlation_key),
            descriptor=state.body.descriptor,
            origin_trace=origin,
            entrypoint=branch.entrypoint,
            fork_key=command.fork.key,
        )
        register(draft, held.workflow, new, clock=state.clock, fresh=fresh)
    draft.write(
        held.workflow,
        replace(
            held.activation,
            fork_count=held.activation.fork_count + 1,
            fork_bytes=held.activation.fork_bytes + command.fork.size(),
            new_children=held.activation.new_children + len(command.fork.branches),
        ),
        Fork(
            workflow_id=held.workflow.id,
            key=command.fork.key,
            activation_id=held.task.id,
            attempt_id=held.attempt.id,
            identity=command.fork.identity(),
        ),
    )
    receipt = _receipt(command, already_accepted=False)
    return draft.accepted(receipt, state.clock, valid_until=[authorised_until(held)])


def _receipt(command: ForkCommand, *, already_accepted: bool) -> ForkReceipt:
    return ForkReceipt(
        key=command.fork.key,
        branch_keys=tuple(branch.key for branch in command.fork.branches),
        already_accepted=already_accepted,
    )


def _limit(reason: str | None) -> Rejected | None:
    return None if reason is None else Rejected(code="invalid_input", message=f"body.fork: {reason}")
