"""The one place where SQL texts get their clock.

`{real}` is the database's clock in Unix milliseconds. `{now(SCOPE)}` is the time of a scope, SCOPE being an SQL
expression for its id: the same clock, plus the scope's offset when test controls are on. A comparison that an index
shall serve needs the clock in a subquery, `<= (select {real})`: a volatile function is never looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import asyncpg

from protocol3.core.verdict import Clock

REAL = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
_NOW = re.compile(r"\{now\(([^)]*)\)\}")


@cache
def timed(text: str, *, virtual: bool = False) -> str:
    """The statement with its clock placeholders filled in."""
    now = rf"({REAL} + (select clock_offset_ms from scope where scope.id = \1))" if virtual else REAL
    return _NOW.sub(now, text).replace("{real}", REAL)


#: Fills the clock of a statement in; see `Transitions.sql`.
Sql: TypeAlias = Callable[[str], str]


def clock_of(row: asyncpg.Record) -> Clock:
    """The clock that a load read in its column `now`."""
    return Clock(now=row["now"])
