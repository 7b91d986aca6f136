"""References to children, branches and forks: names inside one activation, never JSON and never awaitable
(HLP-078, HLP-111)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._exact import copy

if TYPE_CHECKING:
    from ._context import WorkflowContext


class TaskRef:
    """A staged child task."""

    __slots__ = ("_context", "key")

    def __init__(self, key: str, context: WorkflowContext) -> None:
        self.key = key
        self._context = context


class WorkflowRef(TaskRef):
    """A staged child workflow."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A checked branch of this activation; `fork` starts it."""

    _encoded: bytes = field(repr=False)
    _context: Any = field(repr=False)

    @property
    def key(self) -> str:
        return str(copy(self._encoded)["key"])


@dataclass(frozen=True, slots=True)
class ForkRef:
    """A registered fork and the keys of its branches, in order."""

    key: str
    branch_keys: tuple[str, ...]
    _context: Any = field(repr=False)
