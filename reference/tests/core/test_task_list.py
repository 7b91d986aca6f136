"""Cursors of the task list (DISC-015 to DISC-019, DISC-024)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol3.contract.limits import CURSOR_BYTES
from protocol3.contract.models.common import Scope
from protocol3.contract.models.tasks import TaskListQuery
from protocol3.contract.refusal import Refusal
from protocol3.core.records import Task
from protocol3.core.task_list import Position, read_cursor, write_cursor

QUERY = TaskListQuery(scope=Scope(tenant_id="north", namespace="reports"), state="queued", queue="q")


def test_a_cursor_names_the_last_item(make):
    """DISC-012, DISC-017: position after it, whatever the limit."""
    cursor = write_cursor(QUERY, make.task(id="täsk", submitted_at=5))
    assert read_cursor(replace(QUERY, limit=3), cursor) == Position(submitted_at=5, task_id="täsk")


def test_the_longest_id_fits(make):
    """DISC-024."""
    assert len(write_cursor(QUERY, make.task(id="\U0001f600" * 32))) <= CURSOR_BYTES


@pytest.mark.parametrize(
    "other",
    [
        {"scope": Scope(tenant_id="north", namespace="other")},
        {"scope": Scope(tenant_id="other", namespace="reports")},
        {"state": None},
        {"state": "active"},
        {"queue": None},
        {"queue": "queued"},
        {"correlation_key": ""},
        {"submitted_from": 0},
        {"submitted_until": 0},
        {"state": None, "queue": None, "correlation_key": "q"},
    ],
)
def test_a_cursor_belongs_to_its_question(make, other):
    """DISC-016: another scope, or a filter changed, added or removed."""
    cursor = write_cursor(QUERY, make.task())
    with pytest.raises(Refusal, match="another scope or other filters"):
        read_cursor(replace(QUERY, **other), cursor)


@given(st.data())
def test_damaged_cursors(data):
    """DISC-018: cut, changed or lengthened; never another position."""
    fields = dict.fromkeys(Task.__dataclass_fields__) | {"id": "task_1", "submitted_at": 1_700_000_000_000}
    cursor = write_cursor(QUERY, Task(**fields))
    at = data.draw(st.integers(0, len(cursor) - 1))
    letter = data.draw(st.characters(exclude_categories=["Cs"]).filter(lambda c: c != cursor[at]))
    damaged = data.draw(
        st.sampled_from([cursor[:at], cursor[:at] + letter + cursor[at + 1 :], cursor + letter, letter + cursor])
    )
    with pytest.raises(Refusal) as refused:
        read_cursor(QUERY, damaged)
    assert refused.value.code == "invalid_input"


@pytest.mark.parametrize("foreign", ["", "a", "aGVsbG8", "%%%", "=" * 8, "x" * CURSOR_BYTES])
def test_foreign_cursors(foreign):
    """DISC-018."""
    with pytest.raises(Refusal):
        read_cursor(QUERY, foreign)
