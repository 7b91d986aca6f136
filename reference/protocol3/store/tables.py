"""Which record lives in which table, by which key. Reading and writing records follows from this list alone."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from protocol3.core import records as r


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`once` rows are inserted and never changed; `guard` is the guard kind that covers a versioned row."""

    record: type[Any]
    name: str
    key: tuple[str, ...]
    once: bool = False
    guard: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self.record))

    @property
    def changing(self) -> tuple[str, ...]:
        return tuple(c for c in self.columns if c not in self.key)


TABLES: tuple[Table, ...] = (
    Table(record=r.Session, name="session", key=("id",), guard="session"),
    Table(record=r.Cursor, name="cursor", key=("session_id", "consumer_id"), guard="cursor"),
    Table(record=r.Task, name="task", key=("id",), guard="task"),
    Table(record=r.TaskBody, name="task_body", key=("task_id",), once=True),
    Table(record=r.Submission, name="submission", key=("scope_id", "space", "key"), once=True),
    Table(record=r.Attempt, name="attempt", key=("id",)),
    Table(record=r.Settlement, name="settlement", key=("attempt_id",), once=True),
    Table(record=r.History, name="history", key=("task_id", "sequence"), once=True),
    Table(record=r.Workflow, name="workflow", key=("id",), guard="workflow"),
    Table(record=r.WorkflowBody, name="workflow_body", key=("workflow_id",), once=True),
    Table(record=r.Outcome, name="outcome", key=("workflow_id",)),
    Table(record=r.Checkpoint, name="checkpoint", key=("workflow_id",)),
    Table(record=r.Activation, name="activation", key=("task_id",)),
    Table(record=r.ActivationContext, name="activation_context", key=("task_id",), once=True),
    Table(record=r.Local, name="local", key=("activation_id", "key"), once=True),
    Table(record=r.Fork, name="fork", key=("workflow_id", "key"), once=True),
    Table(record=r.Child, name="child", key=("workflow_id", "key")),
    Table(record=r.Wait, name="wait", key=("workflow_id", "key"), once=True),
    Table(record=r.Inbox, name="inbox", key=("workflow_id", "key"), once=True),
    Table(record=r.InboxBody, name="inbox_body", key=("workflow_id", "key"), once=True),
    Table(record=r.Obligation, name="obligation", key=("id",), guard="obligation"),
    Table(record=r.Agenda, name="agenda", key=("kind", "ref")),
)

BY_RECORD: dict[type[Any], Table] = {t.record: t for t in TABLES}
BY_GUARD: dict[str, Table] = {t.guard: t for t in TABLES if t.guard is not None}
#: Position of each table's argument in `apply`.
ARGUMENT: dict[type[Any], int] = {t.record: i for i, t in enumerate(TABLES)}
_COLUMNS: dict[type[Any], tuple[str, ...]] = {t.record: t.columns for t in TABLES}
_ROW: dict[type[Any], Any] = {t.record: attrgetter(*t.columns) for t in TABLES}
_KEY: dict[type[Any], Any] = {t.record: attrgetter(*t.key) for t in TABLES}


def row_of(record: Any) -> tuple[Any, ...]:
    """The record as a row, in column order."""
    row: tuple[Any, ...] = _ROW[type(record)](record)
    return row


def key_of(record: Any) -> Any:
    """The record's key value or tuple of key values."""
    return _KEY[type(record)](record)


def named(table: Table, key: Any) -> tuple[Any, ...]:
    """What this row is called: as a guard calls it (kind, id, part), or by table and key where no guard covers it."""
    keys = key if isinstance(key, tuple) else (key,)
    if table.guard is None:
        return (table.name, *keys)
    return (table.guard, *keys) if len(keys) == 2 else (table.guard, *keys, 0)


def record_of(kind: type[Any], row: Any) -> Any:
    """The record of a whole row (`select t from task t`), or None where an outer join found none."""
    if row is None:
        return None
    return kind(**dict(zip(_COLUMNS[kind], row, strict=True)))


def records_of(kind: type[Any], rows: Any) -> tuple[Any, ...]:
    """The records of an array of whole rows (`array_agg(c)`), empty for null."""
    return tuple(record_of(kind, row) for row in rows or ())
