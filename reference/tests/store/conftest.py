"""Rows to work with: one scope, tasks and cursors in it."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace
from typing import Any

import asyncpg
import pytest

from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard
from protocol3.store import group_commit
from protocol3.store.apply_sql import APPLY
from protocol3.store.transition import Transitions, arguments

_numbers = itertools.count(1)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine, who waits for a statement under way waits until it ends."""
    monkeypatch.setattr(group_commit, "PATIENCE_S", 3_600)


def blank(of: Any, /, **known: Any) -> Any:
    """A record of a kind with whatever fits its columns."""
    samples = {"int": 1, "str": "x", "bytes": b"x", "bool": False, "Sequence[str]": ["x", "y"]}
    return of(**{f.name: samples.get(str(f.type).split(" ")[0], "x") for f in fields(of)} | known)


class Store:
    """Applies decisions made by hand."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self.pool = pool
        self.wakes: list[Any] = []
        self.transitions = Transitions(pool, on_commit=self.wakes.extend)

    async def apply(self, verdict: Accepted) -> bool:
        return bool(await self.pool.fetchval(APPLY, *arguments(verdict)))

    async def task(self, **changes: Any) -> r.Task:
        """A task that is stored."""
        task: r.Task = blank(r.Task, id=f"task_{next(_numbers)}", state="queued", current_attempt_id=None, version=0)
        task = replace(task, **changes)
        assert await self.apply(Accepted(reply=None, records=(task,)))
        return task

    async def version(self, task: r.Task) -> int:
        return int(await self.pool.fetchval("select version from task where id = $1", task.id))

    def changing(self, task: r.Task, **changes: Any) -> Accepted:
        """A decision that changes the task under its guard."""
        guard = Guard(kind="task", id=task.id, version=task.version)
        return Accepted(reply="done", records=(replace(task, **changes),), guards=(guard,))


@pytest.fixture(name="blank")
def _blank() -> Any:
    return blank


@pytest.fixture
async def store(pool: asyncpg.Pool[asyncpg.Record]) -> Store:
    return Store(pool)
