"""Running an approved action (HLP-086 … HLP-088)."""

from __future__ import annotations

from ._approval_objects import Approval, ApprovalStatus
from ._calls import Function, callable_name, effective_arguments
from ._checks import text
from ._errors import WorkflowError
from ._exact import canonical

APPROVED_PREFIX = "_approval:"


def bind(approval: Approval | None, fn: Function, *, version: object) -> tuple[str, bytes]:
    """The step's key and its canonical arguments: exactly those that were reviewed."""
    from hashlib import sha256  # most activations never need it

    if approval is None or approval.status is not ApprovalStatus.APPROVED:
        raise WorkflowError("approved_local: this activation was not resumed by an approval")
    action = approval.action
    if (action.name, action.version) != (callable_name(fn), text(version, "approved_local: version")):
        raise WorkflowError("approved_local: another function or version was approved")
    reviewed = canonical(action.arguments, "approved_local: arguments")
    if canonical(effective_arguments(fn, action.arguments), "approved_local: arguments") != reviewed:
        raise WorkflowError("approved_local: the function would receive arguments that were not reviewed")
    return APPROVED_PREFIX + sha256(approval.key.encode()).hexdigest(), reviewed
