"""Cursors of the task list: a position, bound to the scope and the filters it was issued for (DISC-015 to DISC-019).

A cursor is base64url text without padding over: 8 bytes of check, 16 bytes that stand for scope and filters, the
submission time of the last item in 8 bytes, its id. It holds no secret and lasts as long as this format.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from protocol3.contract.models.tasks import TaskListQuery
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.strict_json import canonical
from protocol3.core.records import Task

_CHECK: Final = 8
_BINDING: Final = 16
_TIME: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The last item of a page; the next one begins strictly after it in the order of DISC-009."""

    submitted_at: int
    task_id: str


def write_cursor(query: TaskListQuery, last: Task) -> str:
    """The cursor of a page that ends with this task."""
    content = _binding(query) + last.submitted_at.to_bytes(_TIME, "big") + last.id.encode()
    return urlsafe_b64encode(_check(content) + content).rstrip(b"=").decode()


def read_cursor(query: TaskListQuery, cursor: str) -> Position:
    """Raises `invalid_input` for a cursor that was not issued here, is damaged, or belongs to another question."""
    try:
        octets = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        content = octets[_CHECK:]
        binding, time, task_id = content[:_BINDING], content[_BINDING:][:_TIME], content[_BINDING + _TIME :].decode()
    except (Error, UnicodeError):
        raise _foreign() from None
    position = Position(submitted_at=int.from_bytes(time, "big"), task_id=task_id)
    if _check(content) != octets[:_CHECK] or urlsafe_b64encode(octets).rstrip(b"=") != cursor.encode():
        raise _foreign()
    if binding != _binding(query):
        raise invalid("query.cursor", "belongs to another scope or other filters")
    return position


def _foreign() -> Refusal:
    return invalid("query.cursor", "was not issued by this service")


def _binding(query: TaskListQuery) -> bytes:
    filters = [query.state, query.queue, query.correlation_key, query.submitted_from, query.submitted_until]
    return blake2b(canonical([query.scope.to_json(), *filters]), digest_size=_BINDING).digest()


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECK, person=b"task cursor 1").digest()
