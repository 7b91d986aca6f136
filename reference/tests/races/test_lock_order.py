"""The lock order is written once, and every statement that a working coordinator sends takes its locks by it."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

import protocol3
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve
from protocol3.core.verdict import LOCK_ORDER
from protocol3.store.apply_sql import APPLY, APPLY_TOGETHER
from protocol3.store.tables import BY_GUARD, TABLES
from protocol3_conformance.wire.routes import BY_METHOD_AND_PATH
from races import table
from races.arena import Arena, RaceLab, publish
from races.table.ends import begun

#: Rules at `locked` take the clock last on purpose (TST-022), restarts need real processes.
PLAYED = [race for race in table.RACES if not race.restarts and not {"RACE-14", "RACE-33"} & set(race.ids)]
TABLE_OF = {"clock": "scope"} | {kind: one.name for kind, one in BY_GUARD.items()}
LOCKING = re.compile(r"\bfor (?:no key )?(?:update|share)\b", re.IGNORECASE)

APPLIES = (APPLY, APPLY_TOGETHER)

Key = tuple[int, str, int]


def locks_of(query: str, arguments: Sequence[Any]) -> list[Key]:
    """What a statement locks, in its order: kind by its place in LOCK_ORDER, id, part. An id that is not told is ''."""
    if query in APPLIES or "lock_guards(" in query:
        return [(LOCK_ORDER.index(kind), id, part) for kind, id, part, _, _ in arguments[0]]
    if "lock_claim(" in query:  # and then tasks, which it never waits for
        sessions, consumers, scope = arguments[:3]
        session, cursor = LOCK_ORDER.index("session"), LOCK_ORDER.index("cursor")
        cursors = sorted(zip(sessions, consumers, strict=True))
        return [
            (0, str(scope), 0),
            *((session, id, 0) for id in sorted(set(sessions))),
            *((cursor, *c) for c in cursors),
        ]
    read = "|from|join" if LOCKING.search(query) else ""
    return sorted(
        (LOCK_ORDER.index(kind), "", 0)
        for kind, name in TABLE_OF.items()
        if re.search(rf"\b(?:update|delete from{read})\s+{name}\b", query, re.IGNORECASE)
    )


def disorder(statements: Sequence[tuple[str, Sequence[Any]]]) -> list[str]:
    """Where the statements of one connection lock something that comes before what they hold."""
    found, held = [], list[Key]()
    open_transaction = False
    for query, arguments in statements:
        word = query.split(maxsplit=1)[0].rstrip(";").upper()
        if word in ("BEGIN", "COMMIT", "ROLLBACK"):
            open_transaction, held = word == "BEGIN", []
            continue
        for key in locks_of(query, arguments):
            if key not in held:
                if held and key < max(held):
                    found.append(f"{LOCK_ORDER[key[0]]} {key[1]} after {LOCK_ORDER[max(held)[0]]}: {query[:80]}")
                held.append(key)
        if not open_transaction:
            held = []
    return found


def unguarded(arguments: Sequence[Any]) -> list[str]:
    """Rows of `apply` that change what a guard covers, and whose owner is neither guarded for a change nor new.

    An activation belongs to its task and to its workflow: whoever changes it sees both and changes one of them.
    """
    changed = {(kind, id) for kind, id, _, _, seen in arguments[0] if not seen}
    if any(kind == "workflow" for kind, _ in changed):
        activations = {("task", id) for kind, id, *_ in arguments[0] if kind == "task"}
    else:
        activations = set()
    rows = {each.name: (each, array or ()) for each, array in zip(TABLES, arguments[-len(TABLES) :], strict=True)}
    new = {(name, row[0]) for name in ("task", "workflow") for row in rows[name][1] if row[-1] == 0}
    found = []
    for name, (each, array) in rows.items():
        for row in array:
            record = dict(zip(each.columns, row, strict=True))
            kind = each.guard or next((k for k in ("workflow", "task") if f"{k}_id" in each.key), None)
            if kind is None or (each.guard and record["version"] == 0):
                continue
            owner = record[each.key[0]]
            if (kind, owner) not in changed | new | (activations if name == "activation" else set()):
                found.append(f"{name} of {kind} {owner}")
    return found


@pytest.mark.parametrize(
    ("first", "then", "wrong"), [("workflow", "task", False), ("task", "workflow", True), ("task", "clock", True)]
)
def test_a_wrong_order_is_noticed(first, then, wrong):
    """In one statement, and in two of one transaction; not in two transactions."""
    one, two = (first, "x", 0, 1, False), (then, "x", 0, 1, False)
    lock = "select lock_guards($1)"
    assert bool(disorder([(APPLY, [[one, two]])])) is wrong
    assert bool(disorder([("BEGIN;", []), (lock, [[one]]), (APPLY, [[one, two]]), ("COMMIT;", [])])) is wrong
    assert not disorder([(APPLY, [[one]]), (APPLY, [[two]])])


def test_locks_are_written_in_few_places():
    """One function locks guards, one locks what a claim needs; the others lock rows of a single kind, or a clock."""
    package = Path(protocol3.__file__).parent
    texts = {path: path.read_text() for path in package.rglob("*.*") if path.suffix in (".py", ".sql")}
    places = {str(path.relative_to(package)) for path, text in texts.items() if LOCKING.search(text)}
    assert places == {
        "coordinator/background/obligations.py",
        "store/clock.py",
        "store/migrations/0001_initial.sql",
        "store/virtual_time.py",
    }
    assert sum("LOCK_ORDER:" in text or "LOCK_ORDER =" in text for text in texts.values()) == 1


@pytest.fixture
async def sent(database, monkeypatch):
    """Every statement with its arguments, by connection, of pools that are opened from now on."""
    statements = defaultdict[int, list[Any]](list)
    create = asyncpg.create_pool

    async def listen(connection: Any) -> None:
        def log(number: int, record: Any) -> None:
            statements[number].append((record.query, record.args or ()))

        connection.add_query_logger(partial(log, len(statements)))
        statements[len(statements)] = []

    monkeypatch.setattr(asyncpg, "create_pool", lambda *args, **kw: create(*args, **{"init": listen} | kw))
    return statements


@pytest.fixture
async def inside(database, sent, tmp_path):
    """An arena whose two coordinators run in this process."""
    urls: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        for number in range(2):
            store = tmp_path / f"store-{number}"
            publish(store, number)
            options = ServeOptions(
                listen_host="127.0.0.1", listen_port=0, database_url=database, store=store, test_controls=True
            )
            ready = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(serve(options, ready=ready.set_result))

            async def stop(task: asyncio.Task[None] = serving) -> None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

            stack.push_async_callback(stop)
            urls[f"coordinator-{number}"] = (await ready).url
        system: Any = SimpleNamespace(urls=urls)
        yield Arena(system=system, dsn=database, names=list(urls))


async def the_rest(lab: RaceLab) -> None:
    """Operations that no race plays."""
    worker, first = await begun(lab)
    await lab.client.post("/v1/worker-sessions/extend", {"worker_session_id": worker.session["id"]})
    await first.break_down()
    task = await lab.client.task(queue=lab.child_queue)
    await lab.client.cancel_task(task["task_id"])


async def test_every_operation_locks_in_the_one_order(inside, sent):
    """All races, played free at two coordinators: what each connection locked, statement by statement."""
    paths = set[str]()
    for number, race in enumerate(PLAYED):
        async with inside.lab(race.name, seed=number) as lab:
            await race.free(lab)
            paths |= {exchange.path for peer in lab.each for exchange in peer.transcript.exchanges}
    async with inside.lab("the-rest") as lab:
        await the_rest(lab)
        paths |= {exchange.path for peer in lab.each for exchange in peer.transcript.exchanges}
    assert {path for method, path in BY_METHOD_AND_PATH if method == "POST"} <= paths
    applied = [arguments for each in sent.values() for query, arguments in each if query in APPLIES]
    assert {kind for arguments in applied for kind, *_ in arguments[0]} == set(LOCK_ORDER)
    assert [fault for each in sent.values() for fault in disorder(each)] == []
    assert [fault for arguments in applied for fault in unguarded(arguments)] == []
