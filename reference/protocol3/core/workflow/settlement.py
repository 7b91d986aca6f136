"""Settling an activation and applying what it decided in one step, where nothing has to be asked outside (DEC-003).

Anything else leaves the obligation that every end of an owned task leaves (RCV-001), and is met afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import ApplicationError
from protocol3.contract.models.decisions import Complete, Decision, Fail
from protocol3.contract.models.delivery import SettleCommand
from protocol3.core.finalisation import is_terminal
from protocol3.core.obligations import meet_at_once
from protocol3.core.settlement import SETTLE_CHECKS, EncodedCommand, Reported, Settling, accept
from protocol3.core.verdict import Fresh, Verdict, judged
from protocol3.core.workflow.decision import DecisionState, apply_decision
from protocol3.core.workflow.judgement import Judged, decided, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a report says to the workflow, which has to resolve no program for it.

    `decision` is None for a report that is no success: what it means is known once its attempt was finished.
    """

    decision: Decision | ApplicationError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlingActivation:
    """`state` is None where the command names no activation."""

    settling: Settling
    state: DecisionState | None


def ending_of(command: SettleCommand, encoded: EncodedCommand) -> Ending | None:
    """None where the workflow has nothing to do yet, or not without asking for programs.

    That it is an activation's is what the report says: the checks of a settlement compare it before anything counts.
    """
    if command.report.identity.activation_id is None or command.quiescence != "confirmed":
        return None
    decision = None if encoded.output is None else decided(command.owner.task_id, encoded.output)
    if decision is None or isinstance(decision, ApplicationError | Complete | Fail) or not decision.checkpoint.commands:
        return Ending(decision=decision)
    return None


def settle_activation(asked: SettlingActivation, ending: Ending, fresh: Fresh) -> Verdict:
    """Replies with a SettleReply.

    A workflow that runs no longer, or an attempt that is retried, makes it a settlement like any other.
    """
    refused = judged(SETTLE_CHECKS, asked.settling)
    if refused is not None:
        return refused
    reported, state = accept(asked.settling, fresh), asked.state
    if state is not None and _ended(reported, state):
        meet_at_once(reported.draft)
        apply_decision(
            reported.draft,
            state,
            _judged(reported, ending),
            clock=reported.clock.at_least(state.owned_end),
            fresh=fresh,
        )
    return reported.verdict()


def _ended(reported: Reported, state: DecisionState) -> bool:
    """Whether the one activation that the workflow waits for is over (ACT-009)."""
    task, workflow = reported.task, state.workflow
    return is_terminal(task) and workflow.state == "running" and workflow.activation_id == task.id


def _judged(reported: Reported, ending: Ending) -> Judged | ApplicationError:
    """A success counts as one only if the task succeeded: a cancellation asked for before it wins (TASK-206)."""
    task = reported.task
    found = ending.decision if task.state == "succeeded" else judge(task, reported.attempt, reported.settlement)
    assert found is not None
    if isinstance(found, ApplicationError):
        return found
    return Judged(decision=found, descriptors={}, processing_trace=None)
