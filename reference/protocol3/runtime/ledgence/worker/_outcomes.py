"""Child outcomes: the table of chapter 21 (RUN-068)."""

from __future__ import annotations

from typing import Any

from ._checks import fields, free_text, members, one_of, text
from ._errors import WorkflowError
from ._exact import canonical
from ._limits import FREE_TEXT_BYTES

_STATES = members("succeeded failed cancelled")
_QUIESCENCE = members("confirmed unconfirmed")
_PHASES = members("admission preparation startup execution cleanup")
_ERROR_KINDS = members(
    "invalid_input not_found integrity incompatible unavailable cancelled timed_out runtime protocol io capacity"
)
_TASK = members("task_id state outcome")
_TASK_SUCCEEDED = members("kind attempt_id quiescence execution_may_have_started output")
_TASK_FAILED = members("kind attempt_id quiescence execution_may_have_started failure")
_WORKFLOW = members("kind workflow_id state outcome")
_FAILURES = {
    "application": members("kind error"),
    "execution": members("kind error phase cleanup_error"),
    "attempt_lost": members("kind"),
}
_ERROR = members("kind message")


def check(outcome: object, what: str) -> None:
    """Raise WorkflowError unless this is exactly a task's or a workflow's terminal outcome."""
    if type(outcome) is dict and "kind" in outcome:
        _check_workflow(outcome, what)
    else:
        _check_task(outcome, what)


def check_error(error: object, what: str) -> None:
    """The error of a failed workflow, and of the `fail` decision."""
    item = fields(error, what, _ERROR)
    text(item["kind"], f"{what}.kind")
    free_text(item["message"], f"{what}.message", FREE_TEXT_BYTES)


def _check_workflow(outcome: object, what: str) -> None:
    item = fields(outcome, what, _WORKFLOW)
    one_of(item["kind"], f"{what}.kind", members("workflow"))
    text(item["workflow_id"], f"{what}.workflow_id")
    match one_of(item["state"], f"{what}.state", _STATES):
        case "succeeded":
            final = _final(item, what, members("kind output"))
            canonical(final["output"], f"{what}.outcome.output")
        case "failed":
            check_error(_final(item, what, members("kind error"))["error"], f"{what}.outcome.error")
        case _:
            _final(item, what, members("kind"))


def _check_task(outcome: object, what: str) -> None:
    item = fields(outcome, what, _TASK)
    text(item["task_id"], f"{what}.task_id")
    match one_of(item["state"], f"{what}.state", _STATES):
        case "succeeded":
            final = _attempt(_final(item, what, _TASK_SUCCEEDED), what)
            if final["execution_may_have_started"] is not True:
                raise WorkflowError(f"{what}.outcome.execution_may_have_started: not true")
            canonical(final["output"], f"{what}.outcome.output")
        case "failed":
            _check_failure(_attempt(_final(item, what, _TASK_FAILED), what), f"{what}.outcome.failure")
        case _:
            _final(item, what, members("kind"))


def _final(item: dict[str, Any], what: str, names: frozenset[str]) -> dict[str, Any]:
    final = fields(item["outcome"], f"{what}.outcome", names)
    if type(final["kind"]) is not str or final["kind"] != item["state"]:
        raise WorkflowError(f"{what}.outcome.kind: not the state")
    return final


def _attempt(final: dict[str, Any], what: str) -> dict[str, Any]:
    text(final["attempt_id"], f"{what}.outcome.attempt_id")
    one_of(final["quiescence"], f"{what}.outcome.quiescence", _QUIESCENCE)
    if type(final["execution_may_have_started"]) is not bool:
        raise WorkflowError(f"{what}.outcome.execution_may_have_started: not a boolean")
    return final


def _check_failure(final: dict[str, Any], what: str) -> None:
    failure = final["failure"]
    kind = failure.get("kind") if type(failure) is dict else None
    if type(kind) is not str or kind not in _FAILURES:
        raise WorkflowError(f"{what}.kind: unknown")
    item = fields(failure, what, _FAILURES[kind])
    if kind == "application":
        _check_reported(item["error"], f"{what}.error")
        if not final["execution_may_have_started"]:
            raise WorkflowError(f"{what}: an application failure has started")
    elif kind == "execution":
        one_of(item["phase"], f"{what}.phase", _PHASES)
        _check_reported(item["error"], f"{what}.error", _ERROR_KINDS)
        if item["cleanup_error"] is not None:
            _check_reported(item["cleanup_error"], f"{what}.cleanup_error", _ERROR_KINDS)
    elif final["quiescence"] != "unconfirmed":
        raise WorkflowError(f"{what}: a lost attempt is unconfirmed")


def _check_reported(error: object, what: str, kinds: frozenset[str] | None = None) -> None:
    """An error of an attempt report; unlike a workflow's own it is two free strings."""
    item = fields(error, what, _ERROR)
    if kinds is not None:
        one_of(item["kind"], f"{what}.kind", kinds)
    if type(item["kind"]) is not str or type(item["message"]) is not str:
        raise WorkflowError(f"{what}: kind and message are not strings")
