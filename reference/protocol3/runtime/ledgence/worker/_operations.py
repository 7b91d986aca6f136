"""Model and tool operations, and the keys of steps (HLP-049, HLP-065 … HLP-067)."""

from __future__ import annotations

from enum import StrEnum

from ._approved import APPROVED_PREFIX
from ._calls import Function, callable_name, effective_arguments
from ._checks import text
from ._errors import WorkflowError
from ._exact import canonical


class OperationKind(StrEnum):
    """What an operation calls (HLP-024)."""

    MODEL = "model"
    TOOL = "tool"


def step_key(key: object) -> str:
    """A key that application code may use."""
    if text(key, "local: key").startswith(APPROVED_PREFIX):
        raise WorkflowError(f"local: keys do not start with {APPROVED_PREFIX}")
    return str(key)


def bind(fn: Function, *, kind: object, version: object, arguments: object) -> tuple[str, bytes, bytes]:
    """Recorded callable name, recorded input, and the arguments that `fn` receives."""
    if type(kind) is not OperationKind:
        raise WorkflowError("operation: kind is not an OperationKind")
    text(version, "operation: version")
    name = f"{kind.value}:{callable_name(fn)}"
    effective = effective_arguments(fn, arguments)
    given = {"v": 1, "kind": kind.value, "version": version, "arguments": effective}
    return name, canonical(given, "operation: input"), canonical(effective, "operation: arguments")
