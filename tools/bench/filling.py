"""Tables filled by SQL: copies of what really happened once, under other identifiers."""

from __future__ import annotations

from typing import Any

from bench.own import Own
from bench.progress import progress

#: Columns that hold identifiers, and those that hold keys of clients. Those of a copy follow from the original's and
#: its number, and lie in an index as real ones do: identifiers in the order of time, a millisecond apart and none after
#: the original's, keys far apart.
IDENTIFIERS = {
    "id", "run_id", "task_id", "attempt_id", "current_attempt_id", "latest_attempt_id", "lease_id", "event_id",
    "workflow_id", "activation_id", "subject_id", "ref", "parent_id", "root_id", "parent_workflow_id",
    "root_workflow_id", "child_id",
}  # fmt: skip
KEYS = {("task_body", "idempotency_key"), ("workflow_body", "idempotency_key"), ("submission", "key")}
#: Copies by one statement.
AT_ONCE = 250_000
#: Where the rows of one workflow or task are; `$1` is its id.
OF_TASK = {
    "task": "id = $1",
    "task_body": "task_id = $1",
    "submission": "subject_id = $1",
    "attempt": "task_id = $1",
    "settlement": "attempt_id in (select id from attempt where task_id = $1)",
    "history": "task_id = $1",
}
#: What a copy has in place of the identifier `old.it`: its prefix, an instant before it, 128 bits of its own.
_COPIED = """
split_part(old.it, '_', 1) || '_' || lpad(to_hex(
  ('x0000' || substr(split_part(old.it, '_', 2), 1, 12))::bit(64)::bigint - $2::int + n
), 12, '0') || md5(old.it || n)"""
_TASKS = "(select id from task where workflow_id = $1)"
OF_WORKFLOW = {
    "workflow": "id = $1",
    "workflow_body": "workflow_id = $1",
    "submission": "subject_id = $1",
    "outcome": "workflow_id = $1",
    "checkpoint": "workflow_id = $1",
    "wait": "workflow_id = $1",
    "child": "workflow_id = $1",
    "activation": "workflow_id = $1",
    "activation_context": f"task_id in {_TASKS}",
    "local": f"activation_id in {_TASKS}",
    "task": "workflow_id = $1",
    "task_body": f"task_id in {_TASKS}",
    "attempt": f"task_id in {_TASKS}",
    "settlement": f"attempt_id in (select id from attempt where task_id in {_TASKS})",
    "history": f"task_id in {_TASKS}",
    "agenda": f"ref = $1 or ref in {_TASKS}",
}


async def copy(own: Own, tables: dict[str, str], id: str, count: int, **expressions: str) -> None:
    """`count` copies of what belongs to `id`; `expressions` are SQL for columns that shall differ, by `table_column`.

    The number of a copy is `n` in them. Ends with statistics that fit the tables, and with nothing left to write that
    would be written while something else is measured.
    """
    columns = await own.database.fetch(
        "select table_name, column_name from information_schema.columns where table_schema = 'protocol3' "
        "order by ordinal_position"
    )
    async with own.database.transaction():
        for table, where in tables.items():
            names = [row["column_name"] for row in columns if row["table_name"] == table]
            values = [_value(table, name, expressions) for name in names]
            statement = (
                f"insert into {table} ({', '.join(names)}) select {', '.join(values)} "
                f"from (select * from {table} where {where}) old, generate_series($3::int, $4::int) n"
            )
            for first in range(1, 1 + count, AT_ONCE):
                last = min(first + AT_ONCE - 1, count)
                with progress(f"filling {table}: copies up to {last:,} of {count:,}"):
                    await own.database.execute(statement, id, count, first, last, timeout=3_600)
    for command in ("vacuum analyze", "checkpoint"):
        with progress(f"filled with {count:,} copies: {command}"):
            await own.database.execute(command, timeout=3_600)


def _value(table: str, name: str, expressions: dict[str, str]) -> str:
    if f"{table}_{name}" in expressions:
        return expressions[f"{table}_{name}"]
    if name in IDENTIFIERS:
        return _COPIED.replace("old.it", f"old.{name}")
    return f"md5(old.{name} || n)" if (table, name) in KEYS else f"old.{name}"


async def finished_task(scripted: Any) -> str:
    """The id of a task that went the ordinary way."""
    session = await scripted.open(1)
    task_id: str = await scripted.submit("tasks")
    await scripted.perform(await scripted.poll(session, 0, 1))
    return task_id


async def waiting_workflow(scripted: Any, decide: Any) -> str:
    """The id of a workflow whose first decision was applied, and is a wait."""
    session = await scripted.open(1)
    workflow_id: str = await scripted.submit("workflows")
    await scripted.perform(await scripted.poll(session, 0, 1), decide)
    while (await scripted.own.get("/v1/workflows/status", workflow_id=workflow_id))["state"] != "waiting":
        pass
    return workflow_id
