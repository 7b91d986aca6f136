"""What may end a wait: children that ended, accepted events, deadlines (T4; CHD-031 to CHD-034, TMR-015)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from protocol3.core.obligations import settle
from protocol3.core.records import Checkpoint, Obligation, Wait, Workflow, WorkflowBody
from protocol3.core.verdict import Accepted, Clock, Draft, Fresh, Replay, Verdict
from protocol3.core.workflow.ending import begin_failing, discard, service_error
from protocol3.core.workflow.inputs import OwnedChild, deliver
from protocol3.core.workflow.resume import resume_with_children, resume_with_wake
from protocol3.core.workflow.states import OPEN, Problem, changed
from protocol3.core.workflow.waits import Buffered, over


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildState:
    """`live`: a member of the workflow's present suspend, if it is in one, has not ended.

    Once all of them have, `awaited` are these members, with the body, the checkpoint and the results (RCV-006).
    `drain` is the workflow's drain obligation, `obligations` are those that are still there.
    """

    obligations: tuple[Obligation, ...]
    drain: Obligation | None
    workflow: Workflow
    live: bool
    body: WorkflowBody | None
    checkpoint: Checkpoint | None
    awaited: tuple[OwnedChild, ...]
    results: Mapping[str, bytes | None]
    clock: Clock


def decide_child_ended(state: ChildState, held: Sequence[Obligation], fresh: Fresh) -> Verdict:
    """Meets obligations of kind child of one workflow; nothing to reply.

    Those that somebody else met or took over are his. What follows is the same however many are met at once: it
    depends on the children as they are now, not on which ends are told.

    An open workflow is always written: a decision that read the child as live must miss and be made again, or the
    child's end would be lost between the two (CHD-033, RACE-01).
    """
    stored = {obligation.id: obligation.version for obligation in state.obligations}
    met = [obligation for obligation in held if stored.get(obligation.id) == obligation.version]
    if not met:
        return Replay(reply=None)
    draft, workflow, clock = Draft(), state.workflow, state.clock
    if workflow.state not in OPEN:  # DRN-002, DRN-014
        return discard(met, state.drain, clock)
    settle(draft, *met)
    draft.guard(changed(workflow))
    suspended = workflow.state == "waiting" and workflow.wait_key is None
    # The last end goes on for all, exactly once (CHD-057); a member that failed ends nothing early (FRK-020).
    if not suspended or state.live:
        draft.write(workflow)
        return draft.accepted(None, clock)
    assert state.checkpoint is not None
    assert state.body is not None
    delivery = deliver(state.awaited, state.results)
    if isinstance(delivery, Problem):
        error = service_error("decision_application_failed", delivery.message)
        begin_failing(draft, workflow, error, clock=clock, fresh=fresh)
    else:
        resume_with_children(draft, workflow, state.body, state.checkpoint, delivery, clock=clock, fresh=fresh)
    return draft.accepted(None, clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitState:
    """The open external wait of a workflow, None if it has none, and the event accepted for its key."""

    obligation: Obligation | None
    workflow: Workflow
    body: WorkflowBody
    checkpoint: Checkpoint | None
    wait: Wait | None
    event: Buffered | None
    clock: Clock


def decide_wait(state: WaitState, held: Obligation | None, fresh: Fresh) -> Verdict:
    """Ends the open wait if it is over (TMR-010 to TMR-015); nothing to reply.

    With `held` it meets an obligation of kind wake; without, a deadline may have come, and one that has not leaves
    everything as it is (TMR-013).
    """
    if held is not None and (state.obligation is None or state.obligation.version != held.version):
        return Replay(reply=None)
    draft = Draft()
    if held is not None:
        settle(draft, held)
    ended = None if state.wait is None else over(state.wait, state.event, state.clock.now)
    if ended is None or state.checkpoint is None:
        return Replay(reply=None) if held is None else draft.accepted(None, state.clock)
    draft.guard(changed(state.workflow))
    if ended.wait.deadline is not None:
        draft.unscheduled.append(("wait", state.workflow.id))
    resume_with_wake(draft, state.workflow, state.body, state.checkpoint, ended, clock=state.clock, fresh=fresh)
    return draft.accepted(None, state.clock)


def all_of(verdicts: Iterable[Verdict]) -> Accepted:
    """The ends of waits of several workflows by their deadlines: all of it stands or nothing. Replies True."""
    ends = [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
    return Accepted(
        reply=True,
        records=tuple(record for end in ends for record in end.records),
        guards=tuple(dict.fromkeys(guard for end in ends for guard in end.guards)),
        unscheduled=tuple(entry for end in ends for entry in end.unscheduled),
        wakes=tuple(dict.fromkeys(wake for end in ends for wake in end.wakes)),
    )
