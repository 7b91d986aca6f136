"""The questions of the GET routes, read from a raw query string before any lookup (HTTP-050…059)."""

from dataclasses import dataclass
from typing import Final, Self

from protocol3.contract import query
from protocol3.contract.limits import CURSOR_BYTES, DEFAULT_TASK_PAGE, MAX_TIMESTAMP_MS, TASK_PAGE, U64_MAX
from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import invalid
from protocol3.contract.text import correlation, identifier
from protocol3.contract.vocabulary import TaskState, task_state

_SCOPE: Final = frozenset({"tenant_id", "namespace"})
_TASK: Final = _SCOPE | {"task_id"}
_ATTEMPT: Final = _TASK | {"attempt_id"}
_LIST_FILTERS: Final = frozenset(
    {"state", "queue", "correlation_key", "submitted_from", "submitted_until", "limit", "cursor"}
)


def scope_of(given: dict[str, str]) -> Scope:
    """The scope that every query names."""
    return Scope(
        tenant_id=identifier(given["tenant_id"], "query.tenant_id"),
        namespace=identifier(given["namespace"], "query.namespace"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Names one task."""

    scope: Scope
    task_id: str

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        given = query.fields(raw, _TASK)
        return cls(scope=scope_of(given), task_id=identifier(given["task_id"], "query.task_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptQuery:
    """Names one attempt of a task."""

    scope: Scope
    task_id: str
    attempt_id: str

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        given = query.fields(raw, _ATTEMPT)
        return cls(
            scope=scope_of(given),
            task_id=identifier(given["task_id"], "query.task_id"),
            attempt_id=identifier(given["attempt_id"], "query.attempt_id"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """Names a task and the sequence after which its history is wanted (TASK-130)."""

    scope: Scope
    task_id: str
    after_sequence: int = 0

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        given = query.fields(raw, _TASK, frozenset({"after_sequence"}))
        return cls(
            scope=scope_of(given),
            task_id=identifier(given["task_id"], "query.task_id"),
            after_sequence=query.number(given.get("after_sequence", "0"), "query.after_sequence", 0, U64_MAX),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskListQuery:
    """Filters of the task list; None is no filter, an empty correlation key is one (HTTP-057, DISC-001).

    Times are Unix milliseconds, `submitted_from` inclusive and `submitted_until` exclusive. `cursor` is opaque here.
    """

    scope: Scope
    state: TaskState | None = None
    queue: str | None = None
    correlation_key: str | None = None
    submitted_from: int | None = None
    submitted_until: int | None = None
    limit: int = DEFAULT_TASK_PAGE
    cursor: str | None = None

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        given = query.fields(raw, _SCOPE, _LIST_FILTERS)
        scope = scope_of(given)
        start, end = _time(given, "submitted_from"), _time(given, "submitted_until")
        if start is not None and end is not None and start >= end:
            raise invalid("query.submitted_until", "must be after submitted_from")
        return cls(
            scope=scope,
            state=task_state(given["state"], "query.state") if "state" in given else None,
            queue=identifier(given["queue"], "query.queue") if "queue" in given else None,
            correlation_key=(
                correlation(given["correlation_key"], "query.correlation_key") if "correlation_key" in given else None
            ),
            submitted_from=start,
            submitted_until=end,
            limit=query.number(given["limit"], "query.limit", 1, TASK_PAGE) if "limit" in given else DEFAULT_TASK_PAGE,
            cursor=_cursor(given["cursor"]) if "cursor" in given else None,
        )


def _time(given: dict[str, str], name: str) -> int | None:
    return query.number(given[name], f"query.{name}", 0, MAX_TIMESTAMP_MS) if name in given else None


def _cursor(text: str) -> str:
    """A cursor's length (HTTP-058); whether it was issued here is for the operation to find out."""
    if not 1 <= len(text.encode("utf-8")) <= CURSOR_BYTES:
        raise invalid("query.cursor", f"must be 1 to {CURSOR_BYTES} bytes")
    return text
