"""The statements of every exchange and every look stay on their index, and touch few pages, in large tables.

50,000 rows of each kind lie in the tables, and the planner is told of a million, in as few pages as there are:
a scan seems cheaper to it than it would be. What a statement then does is counted in pages, never in time. With
`PLAN_ROWS=1000000` all rows are really there (a minute).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from protocol3.coordinator.background import due, obligations
from protocol3.store.clock import timed
from protocol3.store.database import open_pool
from protocol3.store.gathered import Kind, together
from protocol3.store.loads import activations, claims, decisions, delivery, tasks, workflows

ROWS = int(os.environ.get("PLAN_ROWS", "50000"))
BELIEVED = max(ROWS, 1_000_000)
#: Of these rows, one in so many is unlike the others: queued, due, open.
RARE = 20
#: Pages for each row that a statement is asked for: what belongs to it lies in up to six tables, each with an index of
#: four levels at most.
PAGES = 30

N = "lpad(n::text, 9, '0')"
RARELY = f"n % {RARE} = 0"
#: What fills a column that has to have a value.
BLANK = {"text": "'x'", "bigint": "1", "integer": "1", "boolean": "false", "bytea": "'\\x7b7d'::bytea"}
#: The columns that matter, by table. Most tasks are over, some wait in one queue, as many are not due yet; one waits in
#: another queue.
FILLED: dict[str, dict[str, str]] = {
    "session": {"id": f"'session_' || {N}", "queue": "'q'", "expires_at": "n"},
    "cursor": {"session_id": f"'session_' || {N}", "consumer_id": "0", "task_id": f"'task_' || {N}",
               "attempt_id": f"'attempt_' || {N}"},
    "task": {"id": f"'task_' || {N}", "queue": f"case n when {22 * RARE} then 'few' else 'q' end", "submitted_at": "n",
             "workflow_id": f"'workflow_' || {N}",
             "state": f"case when {RARELY} then 'queued' else 'succeeded' end",
             "available_at": f"case when n % {2 * RARE} = 0 then n else 1e15::bigint + n end",
             "current_attempt_id": f"'attempt_' || {N}", "latest_attempt_id": f"'attempt_' || {N}",
             "terminal_at": f"case when {RARELY} then null else n end"},
    "task_body": {"task_id": f"'task_' || {N}"},
    "submission": {"space": "case when n % 2 = 0 then 'task' else 'workflow' end", "key": N,
                   "subject_id": f"case when n % 2 = 0 then 'task_' else 'workflow_' end || {N}"},
    "attempt": {"id": f"'attempt_' || {N}", "task_id": f"'task_' || {N}"},
    "settlement": {"attempt_id": f"'attempt_' || {N}"},
    "workflow": {"id": f"'workflow_' || {N}", "activation_id": f"'task_' || {N}",
                 "wait_key": f"case when {RARELY} then 'k' end"},
    "activation": {"task_id": f"'task_' || {N}", "workflow_id": f"'workflow_' || {N}"},
    "activation_context": {"task_id": f"'task_' || {N}"},
    "outcome": {"workflow_id": f"'workflow_' || {N}"},
    "obligation": {"id": f"'obligation_' || {N}", "workflow_id": f"'workflow_' || {N}",
                   "ready_real": f"case when {RARELY} then n else 1e15::bigint + n end"},
    "agenda": {"kind": "'lease'", "ref": f"'task_' || {N}",
               "due": f"case when {RARELY} then n else 1e15::bigint + n end"},
}  # fmt: skip

_ONE = RARE * 7
TASK, ATTEMPT, WORKFLOW = f"task_{_ONE:09}", f"attempt_{_ONE:09}", f"workflow_{_ONE:09}"
SESSIONS = [f"session_{n:09}" for n in range(_ONE, _ONE + 16)]
CONSUMERS, SEQUENCES = [0] * 16, [2] * 16
ALL, NONE = [True] * 16, [False] * 16
TASKS = [f"task_{n:09}" for n in range(_ONE, _ONE + 16)]

#: Every hot statement with parameters that find something, the index by which it must find its first rows, if any, and
#: how many rows it is asked for.
HOT: dict[str, tuple[str, list[Any], str | None, int]] = {
    "claim": (claims._DUE, [SESSIONS, CONSUMERS, SEQUENCES, ALL, 1, "q"], "task_claim", 16),
    "claim of one for many": (claims._DUE, [SESSIONS, CONSUMERS, SEQUENCES, NONE, 1, "few"], "task_claim", 1),
    "claim in vain": (claims._DUE, [SESSIONS, CONSUMERS, SEQUENCES, NONE, 1, "idle"], "task_claim", 1),
    "locked claim": (claims._GIVEN, [SESSIONS, CONSUMERS, SEQUENCES, ALL, 1, "q", TASKS], None, 16),
    "judge a poll": (claims._GIVEN, [SESSIONS[:1], [0], [2], [True], 1, "q", []], None, 1),
    "answerable polls": (claims._ANSWERABLE, [SESSIONS, CONSUMERS, SEQUENCES], None, 16),
    "poll": (delivery._POLL, [SESSIONS[0], 0, 2], "task_claim", 1),
    "renew": (delivery._RENEWING, [SESSIONS[0], 0, TASK, 1, ATTEMPT], None, 1),
    "settle": (delivery._SETTLING, [TASK, 1, ATTEMPT], None, 1),
    "settle an activation": (
        decisions._SETTLING,
        [TASK, 1, ATTEMPT, ["k"], True, "k"],
        None,
        2,
    ),  # a task and a workflow
    "submit a task": (tasks._SUBMITTED, [1, f"{_ONE:09}"], None, 1),
    "status of a task": (tasks._STATUS, [TASK, 1], None, 1),
    "result of a task": (tasks._RESULT, [TASK, 1], None, 1),
    "submit a workflow": (workflows._SUBMITTED, [1, f"{_ONE + 1:09}"], None, 1),
    "status of a workflow": (workflows._STATUS, [WORKFLOW, 1], None, 1),
    "result of a workflow": (workflows._RESULT, [WORKFLOW, 1], None, 1),
    "context of an activation": (activations._CONTEXT, [TASK, ATTEMPT], None, 1),
    "due entries": (due._DUE, [-1, "", "", 100], "agenda_due", 100),
    "next due instant": (due._NEXT, [], "agenda_due", 1),
    "ready obligations": (obligations._TAKE_OVER, [[], 16, 1], "obligation_ready", 16),
    "obligations held": (obligations._HOLD, [["obligation_000000140"], 1, 1], None, 1),
}


def _sixteen(text: str, values: list[Any], index: str | None, rows: int) -> tuple[str, list[Any], str | None, int]:
    """The same as it is read for sixteen at a time, of rows that lie side by side."""
    kind = Kind.of(text, values)
    assert kind is not None
    several = [[_moved(value, by) for value in values] for by in range(16)]
    return together(text, kind.columns), kind.arguments(several), index, 16 * rows


def _moved(value: Any, by: int) -> Any:
    return re.sub(r"\d{9}$", lambda n: f"{int(n[0]) + by:09}", value) if isinstance(value, str) else value


#: What exchanges read one by one, and gathered under load.
SINGLE = ("poll", "renew", "settle", "settle an activation", "submit a task", "status of a task", "result of a task",
          "submit a workflow", "status of a workflow", "result of a workflow", "context of an activation")  # fmt: skip
HOT |= {f"{name}, sixteen gathered": _sixteen(*HOT[name]) for name in SINGLE}


def _insert(table: str, columns: list[asyncpg.Record]) -> str:
    chosen = FILLED[table]
    values = {
        c["column_name"]: chosen.get(c["column_name"], BLANK[c["data_type"]])
        for c in columns
        if c["column_name"] in chosen or c["is_nullable"] == "NO"
    }
    return (
        f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())} from generate_series(1, $1) n"
    )


async def _fill(dsn: str) -> None:
    pool = await open_pool(dsn, size=1)
    async with pool.acquire() as connection:
        for table in FILLED:
            columns = await connection.fetch(
                "select column_name, data_type, is_nullable from information_schema.columns "
                "where table_schema = 'protocol3' and table_name = $1 order by ordinal_position",
                table,
            )
            # Not logged, and nobody else changes what the planner is told.
            await connection.execute(f"alter table {table} set unlogged, set (autovacuum_enabled = off)")
            await connection.execute(_insert(table, columns), ROWS, timeout=600)
            await connection.execute(f"vacuum (analyze) {table}", timeout=600)
            await connection.execute(
                "update pg_class set reltuples = reltuples * $2 where oid = $1::text::regclass or oid in "
                "(select indexrelid from pg_index where indrelid = $1::text::regclass)",
                table,
                BELIEVED / ROWS,
            )
    await pool.close()


@pytest.fixture(scope="module")
def filled(database: str) -> str:
    """The URL of a database with all those rows."""
    asyncio.run(_fill(database))
    return database


@pytest.fixture
async def pool(filled: str) -> Any:
    pool = await open_pool(filled, size=1)
    yield pool
    await pool.close()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def explained(pool: Any, text: str, values: list[Any], *before: str) -> dict[str, Any]:
    """The plan of a statement that was really executed, with what it read; what it wrote is undone."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            for statement in before:
                await connection.execute(statement)
            rows = await connection.fetch(f"explain (analyze, buffers, format json) {timed(text)}", *values)
        finally:
            await transaction.rollback()
    plan: dict[str, Any] = json.loads(rows[0][0])[0]["Plan"]
    return plan


@pytest.mark.parametrize("name", HOT)
async def test_few_pages_and_the_index(pool: Any, name: str) -> None:
    """Every scan is by a key, the index is the wanted one, and the pages do not grow with the tables."""
    text, values, index, rows = HOT[name]
    plan = await explained(pool, text, values)
    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"] == []
    assert index is None or index in used, sorted(used)
    assert pages(plan) <= PAGES * rows, json.dumps(plan, indent=1)


async def test_the_planner_believes_in_a_million_rows(pool: Any) -> None:
    """Else the guard above would be about small tables."""
    for table in FILLED:
        async with pool.acquire() as connection:
            (told,) = json.loads(await connection.fetchval(f"explain (format json) select from {table}"))
        assert told["Plan"]["Plan Rows"] == pytest.approx(BELIEVED, rel=0.01), table


async def test_a_statement_without_its_index_is_noticed(pool: Any) -> None:
    """The guard can fail: without the index of claims the same statement reads far more than it may."""
    text, values, _, rows = HOT["claim"]
    plan = await explained(pool, text, values, "drop index task_claim")
    assert pages(plan) > PAGES * rows


def test_every_statement_of_an_exchange_is_known() -> None:
    """A load that is added to a module of ours is hot, or named here as one of a rarer exchange."""
    rare = {"_LOCK", "_NOW", "_SESSION", "_CONFIRMING", "_CURRENT", "_SNAPSHOT", "_ATTEMPT", "_HISTORY", "_EVENT",
            "_RETRY"}  # fmt: skip
    known = {text for text, *_ in HOT.values()} | {delivery.SETTLING}  # of which two of these are made
    found = {
        f"{module.__name__}.{name}"
        for module in (claims, delivery, tasks, workflows, due, obligations)
        for name, text in vars(module).items()
        if isinstance(text, str) and re.match(r"\s*(select|with|update)\s", text) and text not in known
        if "{{" not in text  # one with gaps is no statement
    }
    assert {name.rpartition(".")[2] for name in found} <= rare, sorted(found)
