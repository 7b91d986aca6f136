"""The durable workflow API of protocol 3 (chapter 23).

A controller is the program's handler: built by `Workflow(...).build()`, or any function that calls
`workflow_context()` and returns one of its decisions.
"""

from typing import Any  # noqa: F401 - where annotations of the data classes below are resolved

from ._activation import SCHEMA
from ._approval_objects import Approval, ApprovalAction, ApprovalDecision, ApprovalStatus
from ._context import WorkflowContext, workflow_context
from ._errors import WorkflowError
from ._operations import OperationKind
from ._references import BranchSpec, ForkRef, TaskRef, WorkflowRef
from ._registry import Workflow

get_workflow_context = workflow_context

#: HLP-144: these names and no others.
__all__ = [
    "SCHEMA",
    "Approval",
    "ApprovalAction",
    "ApprovalDecision",
    "ApprovalStatus",
    "BranchSpec",
    "ForkRef",
    "OperationKind",
    "TaskRef",
    "Workflow",
    "WorkflowContext",
    "WorkflowError",
    "WorkflowRef",
    "get_workflow_context",
    "workflow_context",
]

# Tracebacks, recorded callables and `import` lines of programs name this module, not the private ones behind it.
for _item in (globals()[name] for name in __all__ if name != "SCHEMA"):
    _item.__module__ = __name__
