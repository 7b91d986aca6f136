"""What an ended activation asks of its workflow, judged outside any transition (6.3 steps 2 to 5, 4.3).

Everything here is final: an ended task does not change, and a registered child keeps its kind and program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocol3.contract.limits import DECISION_BYTES
from protocol3.contract.models.common import ApplicationError, ProgramRef
from protocol3.contract.models.decisions import Complete, Decision, DecisionInvalid, Fail, decode_decision
from protocol3.contract.models.outcomes import ApplicationFailure
from protocol3.contract.refusal import Refusal, spelled
from protocol3.contract.strict_json import decode, encode
from protocol3.core.records import Attempt, Settlement, Task
from protocol3.core.task_views import contradiction, failure_of
from protocol3.core.workflow.ending import service_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision of the right shape with what its commands run: descriptors and carrier as compact JSON."""

    decision: Decision
    descriptors: Mapping[ProgramRef, bytes]
    processing_trace: bytes | None


def judge(task: Task, attempt: Attempt | None, settlement: Settlement | None) -> Decision | ApplicationError:
    """Steps 2 to 4: the decision of a successful activation, or the error that fails the workflow (ACT-040).

    Only activations get here: the output of any other task stays what it is (DEC-001). A bad decision was accepted as
    the output of its task (DEC-002, ACT-008).
    `attempt` is the latest of the ended task, `settlement` what it reported.

    ACT-044 to ACT-047.
    """
    if task.state == "cancelled":
        return service_error("workflow_activation_cancelled", "the activation was cancelled")
    if attempt is None:
        raise contradiction()
    if task.state == "succeeded":
        if settlement is None or settlement.output is None:
            raise contradiction()
        return decided(task.id, settlement.output)
    failure = failure_of(attempt, settlement)
    if isinstance(failure, ApplicationFailure):
        return _application_error(failure.error.kind, failure.error.message)
    return service_error("workflow_activation_failed", "the activation ended without a decision")


def decided(task_id: str, output: bytes) -> Decision | ApplicationError:
    """Steps 3 and 4: what a successful activation put out, if it is a decision of its own."""
    if len(output) > DECISION_BYTES:  # a settlement may be much larger; nothing of it has to be looked at
        return service_error("decision_invalid", f"decision: must be at most {DECISION_BYTES} bytes of compact JSON")
    try:
        decision = decode_decision(decode(output))
    except DecisionInvalid as invalid:
        return service_error("decision_invalid", invalid.reason)
    if decision.activation_id != task_id:
        return service_error("decision_invalid", "decision.activation_id: must name the activation that decided")
    return decision


def _application_error(kind: str, message: str) -> ApplicationError:
    """ACT-042: a failure that does not fit a workflow error still fails the workflow."""
    try:
        return ApplicationError.from_json({"kind": kind, "message": message}, "error")
    except Refusal as refusal:
        return service_error("decision_application_failed", f"application failure: {refusal.message}")


def processing_trace(settlement: Settlement | None) -> bytes | None:
    """The carrier that came with a report, compact: the origin of the children its decision registers (CHD-003)."""
    command = None if settlement is None else decode(settlement.command)
    trace = command.get("processing_trace") if isinstance(command, dict) else None
    return None if trace is None else encode(trace)


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
    for index, command in enumerate(decision.checkpoint.commands):
        bound = registered.get(command.key)
        if bound is None:
            wanted[command.program] = None
        elif bound.kind != command.kind or bound.program != command.program:
            reason = f"commands[{index}]: key {spelled(command.key)} is registered with another kind or program"
            return service_error("decision_invalid", reason)
    return tuple(wanted)
