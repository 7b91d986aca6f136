"""What an ended activation asks of its workflow, judged outside any transition (6.3 steps 2 to 5, 4.3).

Everything here is final: an ended task does not change, and a registered child keeps its kind and program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocol3.contract.models.common import ApplicationError, ProgramRef
from protocol3.contract.models.decisions import Complete, Decision, DecisionInvalid, Fail, decode_decision
from protocol3.contract.models.outcomes import ApplicationFailure, Cancelled, TaskFailed, TaskOutcome, TaskSucceeded
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.core.workflow.ending import service_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision of the right shape with what its commands run: descriptors and carrier as compact JSON."""

    decision: Decision
    descriptors: Mapping[ProgramRef, bytes]
    processing_trace: bytes | None


def judge(task_id: str, outcome: TaskOutcome) -> Decision | ApplicationError:
    """Steps 2 to 4: the decision of a successful activation, or the error that fails the workflow."""
    match outcome:
        case TaskSucceeded(output=output):
            return _decision(task_id, output)
        case TaskFailed(failure=ApplicationFailure(error=error)):
            return _application_error(error.kind, error.message)
        case TaskFailed():
            return service_error("workflow_activation_failed", "the activation ended without a decision")
        case Cancelled():
            return service_error("workflow_activation_cancelled", "the activation was cancelled")


def _decision(task_id: str, output: JsonValue) -> Decision | ApplicationError:
    try:
        decision = decode_decision(output)
    except DecisionInvalid as invalid:
        return service_error("decision_invalid", invalid.reason)
    if decision.activation_id != task_id:
        return service_error("decision_invalid", "activation_id: must name the activation that decided")
    return decision


def _application_error(kind: str, message: str) -> ApplicationError:
    """ACT-042: a failure that does not fit a workflow error still fails the workflow."""
    try:
        return ApplicationError.from_json({"kind": kind, "message": message}, "error")
    except Refusal as refusal:
        return service_error("decision_application_failed", f"application failure: {refusal.message}")


def too_large(task_succeeded: bool) -> ApplicationError:
    """What `judge` says about a report too large to be read: a decision above its limit, or an error above its own."""
    if task_succeeded:
        return service_error("decision_invalid", "decision: is too large")
    return service_error("decision_application_failed", "application failure: is too large")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What a child key is bound to, as far as step 5 looks."""

    kind: str
    program: ProgramRef


def programs_to_resolve(
    decision: Decision, registered: Mapping[str, Registered]
) -> tuple[ProgramRef, ...] | ApplicationError:
    """Step 5: the programs of commands with a new key, each once, in order of the commands (DEC-021, DEC-022)."""
    if isinstance(decision, Complete | Fail):
        return ()
    wanted: dict[ProgramRef, None] = {}
    for command in decision.checkpoint.commands:
        bound = registered.get(command.key)
        if bound is None:
            wanted[command.program] = None
        elif bound.kind != command.kind or bound.program != command.program:
            return service_error("decision_invalid", "commands: a key is registered with another kind or program")
    return tuple(wanted)
