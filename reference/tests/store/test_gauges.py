"""The gauges: what they count, what they may look at, and a database that does not answer."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from protocol3.core import records as r
from protocol3.core.verdict import Accepted
from protocol3.store import gauges
from protocol3.store.clock import timed
from protocol3.store.database import open_pool, pool_state
from protocol3.store.gauges import STATEMENT, Gauge, Gauges


@pytest.fixture
async def reader(database: str) -> Any:
    reader = Gauges(database, patience_s=20)
    yield reader
    reader.close()


async def test_what_is_not_over_is_counted_by_kind(store, blank, reader):
    """Finished tasks, closed waits and workflows without a wait are not; ages are those of the oldest."""
    assert {gauge.of: gauge.count for gauge in await reader.read()} == {"leases": 0, "queued": 0}
    now = await store.pool.fetchval(timed("select {real}"))
    for state in ("queued", "queued", "active", "succeeded"):
        await store.task(state=state)
    records = [
        blank(r.Obligation, id="o1", kind="wake", created_at=now - 90_000),
        blank(r.Obligation, id="o2", kind="wake", created_at=now - 5_000),
        blank(r.Obligation, id="o3", kind="drain", created_at=now + 60_000),
        blank(r.Agenda, kind="lease", ref="t"),
        blank(r.Agenda, kind="wait", ref="w1"),
    ]
    for number, (kind, key) in enumerate([("event", "k"), ("event", "k"), ("timer", "k"), ("event", None)]):
        records.append(blank(r.Workflow, id=f"w{number}", wait_key=key))
        records += [blank(r.Wait, workflow_id=f"w{number}", key=name, kind=kind) for name in ("k", "closed")]
    assert await store.apply(Accepted(reply=None, records=tuple(records)))
    found = {(gauge.of, gauge.kind): gauge for gauge in await reader.read()}
    assert {key: gauge.count for key, gauge in found.items()} == {
        ("queued", None): 2,
        ("leases", None): 1,
        ("obligations", "wake"): 2,
        ("obligations", "drain"): 1,
        ("waits", "event"): 2,
        ("waits", "timer"): 1,
    }
    oldest = found["obligations", "wake"].oldest_ms
    assert oldest is not None
    assert oldest >= 90_000
    assert found["obligations", "drain"].oldest_ms == 0


async def test_counting_ends_at_its_bound(store, monkeypatch, reader):
    """`MOST` or more."""
    for _ in range(4):
        await store.task(state="queued")
    monkeypatch.setattr(gauges, "STATEMENT", re.sub(r"limit \d+", "limit 3", STATEMENT))
    assert Gauge(of="queued", kind=None, count=3, oldest_ms=None) in await reader.read()


async def test_only_indexes_of_what_is_not_over_are_read(reader):
    """No table is scanned, and none of the indexes that finished tasks and workflows are in."""
    await reader.read()
    (plan,) = json.loads(await reader._connection.fetchval(f"explain (format json) {timed(STATEMENT)}"))
    scans = [node for node in every(plan["Plan"]) if "Relation Name" in node]
    assert {(node["Relation Name"], node.get("Index Name")) for node in scans} == {
        ("obligation", "obligation_ready"),
        ("workflow", "workflow_waiting"),
        ("wait", "wait_pkey"),
        ("agenda", "agenda_pkey"),
        ("task", "task_claim"),
    }
    assert not [node for node in every(plan["Plan"]) if node["Node Type"] == "Sort"]


def every(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(below for child in node.get("Plans", ()) for below in every(child))]


async def test_a_database_that_refuses_and_comes_back(postgres, database, reader):
    """None while it is away, and a new connection once it is there again."""
    assert await reader.read() is not None
    reader._connection.terminate()
    assert await reader.read() is not None
    away = Gauges("postgresql://127.0.0.1:1/nowhere")
    assert await away.read() is None


async def test_a_database_that_never_answers():
    """The scrape ends with its own time, whoever asks beside it."""
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        reader = Gauges(f"postgresql://127.0.0.1:{port}/x?sslmode=disable", patience_s=0.05)
        assert await asyncio.gather(reader.read(), reader.read()) == [None, None]


async def test_the_state_of_a_pool(database):
    """asyncpg keeps its waiting callers to itself; an upgrade that moves them is seen here."""
    pool = await open_pool(database, size=1)
    async with pool.acquire():
        waiting = [asyncio.create_task(pool.fetchval("select 1")) for _ in range(2)]
        await asyncio.sleep(0)
        state = pool_state(pool)
        assert (state.most, state.open, state.in_use, state.waiting) == (1, 1, 1, 2)
    assert await asyncio.gather(*waiting) == [1, 1]
    assert pool_state(pool).waiting == 0
    await pool.close()
