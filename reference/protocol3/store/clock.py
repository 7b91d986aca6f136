"""The one place where SQL texts get their clock.

`{real}` is the database's clock in Unix milliseconds. `{now(SCOPE)}` is the time of a scope, SCOPE being an SQL
expression for its id: the same clock, plus what the scope is ahead when scopes have clocks of their own (`virtual`).
`{now(SCOPE)} as now` is that column of a load, which then tells as well whose clock it is and how far ahead.
`{clock(SCOPE)}` ends a statement that locks: it holds the clock of the scope first, as the lock order wants.

A comparison that an index shall serve needs the clock in a subquery, `<= (select {real})`: a volatile function is never
looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

import asyncpg

from protocol3.core.verdict import Clock

REAL: Final = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"

_NOW: Final = re.compile(r"\{now\(([^)]*)\)\}( as now)?")
_CLOCK: Final = re.compile(r"\{clock\(([^)]*)\)\}")


@cache
def timed(text: str, *, virtual: bool = False) -> str:
    """The statement with its clock placeholders filled in."""
    text = _NOW.sub(_virtual_now if virtual else rf"{REAL}\2", text)
    text = _CLOCK.sub(r" from (select from scope where scope.id = \1 for share) as its_clock" if virtual else "", text)
    return text.replace("{real}", REAL)


def _virtual_now(found: re.Match[str]) -> str:
    of = f"from scope its where its.id = {found[1]}"
    now = f"({REAL} + (select its.clock_offset_ms {of}))"
    if found[2] is None:
        return now
    return f"{now} as now, (select array[its.id, its.clock_offset_ms] {of}) as clock"


#: Fills the clock of a statement in; see `Transitions.sql`.
Sql: TypeAlias = Callable[[str], str]


def clock_of(row: asyncpg.Record) -> Clock:
    """The clock that a load read by `{now(SCOPE)} as now`."""
    clock = row.get("clock")
    if clock is None:
        return Clock(now=row["now"])
    scope_id, offset = clock
    return Clock(now=row["now"], offset=offset, scope_id=scope_id)
