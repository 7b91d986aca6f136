"""Workflows with registered entries (HLP-092 … HLP-103)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from ._checks import text
from ._errors import WorkflowError

if TYPE_CHECKING:
    from ._context import WorkflowContext

Entry = Callable[[dict[str, Any], "WorkflowContext"], Any]
Handler = Callable[[dict[str, Any]], Awaitable[Any]]
_Function = TypeVar("_Function", bound=Callable[..., Any])

START = "start"


class Workflow:
    """Maps the members of a StrEnum to handlers (HLP-092). Their values are durable addresses (HLP-103)."""

    def __init__(self, entries: type[StrEnum]) -> None:
        if not (isinstance(entries, type) and issubclass(entries, StrEnum) and len(entries)):
            raise WorkflowError("entries: not a StrEnum with members")
        if len(entries) != len(entries.__members__):
            raise WorkflowError("entries: has an alias")
        for member in entries:
            text(member.value, f"entries.{member.name}")
        self._entries = entries
        self._handlers: dict[StrEnum, Entry] = {}
        self._default: StrEnum | None = None
        self._built: Handler | None = None

    def entrypoint(self, entry: StrEnum, *, default: bool = False) -> Callable[[_Function], _Function]:
        """Decorator: the handler `(event, ctx)`, sync or async, of one member (HLP-093, HLP-094); one is default."""
        if type(entry) is not self._entries or type(default) is not bool:
            raise WorkflowError("entrypoint: not a member of the workflow's enum, or default is not a boolean")

        def register(handler: _Function) -> _Function:
            if self._built is not None:
                raise WorkflowError("entrypoint: the workflow is built")
            if not callable(handler):
                raise WorkflowError("entrypoint: the handler is not callable")
            if entry in self._handlers:
                raise WorkflowError(f"entrypoint: {entry.name} has a handler")
            if default and self._default is not None:
                raise WorkflowError(f"entrypoint: {self._default.name} is the default")
            self._handlers[entry] = handler
            self._default = entry if default else self._default
            return handler

        if self._built is not None:
            raise WorkflowError("entrypoint: the workflow is built")
        return register

    def build(self) -> Handler:
        """The program's handler: an async function of the event (HLP-097). Freezes the registry (HLP-095, HLP-096)."""
        if self._built is not None:
            return self._built
        missing = [member.name for member in self._entries if member not in self._handlers]
        if missing:
            raise WorkflowError(f"build: no handler for {', '.join(missing)}")
        default = self._default
        if default is None:
            raise WorkflowError("build: no default entry")
        if default.value != START and START in {member.value for member in self._entries}:
            raise WorkflowError(f"build: the member with value {START!r} must be the default")
        registry = Registry(self._entries, default)
        handlers = dict(self._handlers)

        async def handle(event: dict[str, Any]) -> Any:
            from ._context import workflow_context

            context = workflow_context()
            decision = handlers[context._enter(registry)](event, context)
            return await decision if inspect.isawaitable(decision) else decision

        self._built = handle
        return handle


class Registry:
    """The targets of one built workflow."""

    __slots__ = ("_default", "_entries")

    def __init__(self, entries: type[StrEnum], default: StrEnum) -> None:
        self._entries = entries
        self._default = default

    def select(self, continuation: str) -> StrEnum:
        """The member that a continuation addresses (HLP-098). Raises WorkflowError."""
        if continuation == START:
            return self._default
        if not self.knows(continuation):
            raise WorkflowError(f"continuation {continuation!r}: no such entry")
        return self._entries(continuation)

    def knows(self, value: str) -> bool:
        return any(member.value == value for member in self._entries)

    def target(self, target: object, what: str) -> str:
        """The durable value of a member (HLP-099). Raises WorkflowError."""
        if type(target) is not self._entries:
            raise WorkflowError(f"{what}: not a member of the workflow's enum")
        return str(target.value)
