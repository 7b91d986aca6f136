"""What is told of an exchange once it is answered: to the log, to metrics, to traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from protocol3.contract.models.common import TraceContext

#: Every other method is the client's text.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})

_NAMES: Final = frozenset({"task_id", "attempt_id", "workflow_id", "worker_session_id"})
#: Which of them a kind of command has.
_named: Final[dict[type, tuple[str, ...]]] = {}
#: The form of the identifiers that this service makes; what a client made up in their place is its text.
_DURABLE: Final = re.compile(r"(?:task|att|wf|ws)_[0-9a-f]{44}")

_subjects: Final[ContextVar[dict[str, str] | None]] = ContextVar("subjects", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """An answered exchange, without a word of the client's.

    `route` is None for an unknown path, `method` for an unknown method, both for bytes that are no request.
    `subjects` are the durable ids it was about, by name; `carrier` is the trace context of its headers (TRC-012).
    """

    request_id: str | None
    method: str | None
    route: str | None
    status: int
    code: str | None = None
    seconds: float = 0.0
    subjects: Mapping[str, str] = field(default_factory=dict)
    carrier: TraceContext | None = None


Observer: TypeAlias = Callable[[Exchange], None]
"""Must neither block nor raise."""


def collect() -> dict[str, str]:
    """Begin an exchange: what `note` is told in its context is found in the result."""
    found: dict[str, str] = {}
    _subjects.set(found)
    return found


def note(**ids: str | None) -> None:
    """The present exchange is about these durable ids: `task_id`, `attempt_id`, `workflow_id`, `worker_session_id`."""
    found = _subjects.get()
    if found is not None:
        found.update((name, id) for name, id in ids.items() if id is not None and _DURABLE.fullmatch(id))


def note_command(command: object) -> None:
    """The durable ids that a command names, itself or in its lease owner."""
    for holder in (command, getattr(command, "owner", None)):
        kind = type(holder)
        if kind not in _named:
            _named[kind] = tuple(name for name in getattr(kind, "__dataclass_fields__", ()) if name in _NAMES)
        if names := _named[kind]:
            note(**{name: getattr(holder, name) for name in names})
