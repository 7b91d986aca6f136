"""Every change is a transition: read, decide, apply under guards; after a miss: lock, read in a LATER statement, apply.

A statement that waits for a lock and reads sees the locked row new and everything else old (store/test_locks.py shows
it). So no load locks, and in the locked form each load comes after the locks. Here every transition there is takes both
forms, on one connection whose statements are recorded.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

import protocol3
from protocol3.contract.models.delivery import AcquireCommand, ExtendSession
from protocol3.coordinator.background import expiry, workflow_handlers
from protocol3.coordinator.http.routes import ROUTES
from protocol3.core.records import Agenda, Obligation
from protocol3.store import scopes
from protocol3.store.database import open_pool
from protocol3.store.loads import activations, claims, decisions, delivery, progress, tasks, workflows
from protocol3.store.tables import record_of
from protocol3.store.transition import Transitions

#: What decides without ever changing anything.
READS_ALONE = {"activations.context"}
#: What the look at a key brought serves the acceptance as well; after a miss it is loaded like everything else.
LOADED_BEFORE = {"tasks.submitted", "workflows.submitted"}
#: What is decided as remembered, if it can be; after a miss it is loaded like everything else.
REMEMBERED = {"delivery.renewing", "activations.local"}
#: What decides for several at once and has no locked form: after a miss each of them is decided alone.
TOGETHER = {"progress.waits"}
#: Where SQL that writes may stand: `apply`, new scopes, the schema; claims and retries of obligations, which change no
#: more than when somebody handles them; the advance of a clock, by test controls.
WRITERS = {
    "store/apply_sql.py",
    "store/scopes.py",
    "store/database.py",
    "coordinator/background/obligations.py",
    "store/virtual_time.py",
}
_WRITES = re.compile(r"\b(insert into|update \w+( \w)? set|delete from)\b", re.IGNORECASE)
_LOCKS = re.compile(r"\bfor (no key update|update|share|key share)\b|\block_\w+\(", re.IGNORECASE)
_LETTERS = {"BEGIN;": "b", "COMMIT;": "c", "ROLLBACK;": "r"}


def letter(query):
    """b, c, r for the frame of a transaction, k for locking, a for `apply`, l for a load."""
    text = " ".join(query.split())
    if text in _LETTERS:
        return _LETTERS[text]
    if text.startswith(("select lock_guards(", "select lock_claim(")):
        return "k"
    if text.startswith(("select apply(", "select apply_together(")):
        return "a"
    assert re.match(r"(select|with)\b", text), text
    assert not _WRITES.search(text), text
    assert not _LOCKS.search(text), text
    return "l"


def loads():
    """Everything that loads the records of a decision."""
    found = {"claims.claiming"}
    for module in (activations, decisions, delivery, progress, tasks, workflows):
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__
            if own and str(function.__annotations__.get("return")).startswith("Load["):
                found.add(f"{module.__name__.rpartition('.')[2]}.{name}")
    return found


class Recorder:
    """The statements of each transition, as letters, by its load."""

    def __init__(self):
        self.statements = []
        self.shapes = {}
        self.operations = set()
        self.steps = set()

    def log(self, record):
        if not any(word in record.query for word in ("typeinfo_tree", "set_config")):  # asyncpg learns a row type
            self.statements.append(record.query)

    async def note(self, load, since):
        await asyncio.sleep(0)  # the last statement is logged when the loop comes to it
        shape = "".join(letter(query) for query in self.statements[since:])
        self.shapes.setdefault(load, set()).add(shape)


@pytest.fixture
async def pool(database):
    """One connection, so that statements are in order, and whoever needed two at once would wait for good."""
    pool = await open_pool(database, size=1)
    yield pool
    await pool.close()


@pytest.fixture
async def recorder(pool, still, monkeypatch):
    recorder = Recorder()
    async with pool.acquire() as connection:
        connection.add_query_logger(recorder.log)
    run, run_once, run_holding, call = Transitions.run, Transitions.run_once, Transitions.run_holding, still.call

    def named(load):
        return f"{load.__module__.rpartition('.')[2]}.{load.__qualname__.partition('.')[0]}"

    async def recorded_run(self, key, load, decide, **turn):
        since = len(recorder.statements)
        try:
            return await run(self, key, load, decide, **turn)
        finally:
            await recorder.note(named(load), since)

    def recorded(inner):
        async def recorded_claim(self, *arguments):
            since = len(recorder.statements)
            try:
                return await inner(self, *arguments)
            finally:
                together = TOGETHER & set(map(named, arguments[1:2]))
                await recorder.note(*(together or {"claims.claiming"}), since)

        return recorded_claim

    async def recorded_call(name, command):
        recorder.operations.add(name)
        return await call(name, command)

    monkeypatch.setattr(Transitions, "run", recorded_run)
    monkeypatch.setattr(Transitions, "run_once", recorded(run_once))
    monkeypatch.setattr(Transitions, "run_in_steps", recorded(Transitions.run_in_steps))
    monkeypatch.setattr(Transitions, "run_holding", recorded(run_holding))
    monkeypatch.setattr(still, "call", recorded_call)
    return recorder


async def meet(still, recorder, workflow_id, kind):
    """Handle what is owed to the workflow."""
    text = "select o from obligation o where workflow_id = $1 and kind = $2"
    row = await still.services.pool.fetchrow(text, workflow_id, kind)
    recorder.steps.add(kind)
    await workflow_handlers.OBLIGATIONS[kind](still.services, record_of(Obligation, row["o"]))


async def due(still, recorder, kind, ref):
    row = await still.services.pool.fetchrow("select a from agenda a where kind = $1 and ref = $2", kind, ref)
    recorder.steps.add(kind)
    handlers = {"lease": expiry.handle_lease, **workflow_handlers.AGENDA}
    entry = record_of(Agenda, row["a"])
    together = workflow_handlers.AGENDA_TOGETHER.get(kind)
    if together is None or not await together(still.services, [entry]):
        await handlers[kind](still.services, entry)


async def walk(still, recorder, staged):
    """Every operation and every background step, each changing something at least once."""
    pool = still.services.pool
    workflow_id = (await still.submit())["workflow_id"]
    run = await still.start()
    await run.context()
    await run.local()
    await run.fork("x")
    await still.send(workflow_id, "k")
    await run.decide("suspend", commands=[staged("a")], until=["a"])
    await meet(still, recorder, workflow_id, "decision")
    child = await still.start("rates")
    await child.succeed(1, quiescence="unconfirmed")
    await child.confirm()
    await meet(still, recorder, workflow_id, "child")
    await (await still.start()).decide("wait", wait={"kind": "event", "key": "k2", "timeout_ms": 3_600_000})
    await still.send(workflow_id, "k2")
    await meet(still, recorder, workflow_id, "wake")
    await (await still.start()).decide("wait", wait={"kind": "timer", "key": "nap", "delay_ms": 3_600_000})
    await pool.execute("update wait set deadline = 1 where workflow_id = $1 and key = 'nap'", workflow_id)
    await due(still, recorder, "wait", workflow_id)
    await still.cancel(workflow_id)
    await meet(still, recorder, workflow_id, "drain")
    await pool.execute("delete from obligation where workflow_id = $1 and kind <> 'drain'", workflow_id)
    task = await still.submit_task(queue="other")
    await still.cancel_task(task["task_id"])
    await still.submit_task("leased", queue="leased")
    leased = await still.start("leased")
    await pool.execute("update attempt set lease_expires_at = 1, authority_deadline = 1 where id = $1", attempt(leased))
    assert await repeated(still, leased) == "ownership_lost"
    await due(still, recorder, "lease", leased.task_id)
    session = await pool.fetchval("select id from session limit 1")
    await still.call("extend_session", ExtendSession(worker_session_id=session))
    assert await still.nothing("empty")
    old = (await still.submit("old"))["workflow_id"]
    await (await still.start()).decide("continue", commands=[staged("a")])
    await pool.execute("update obligation set created_at = 1 where workflow_id = $1", old)
    row = await pool.fetchrow("select o from obligation o where workflow_id = $1", old)
    await workflow_handlers.give_up(still.services, record_of(Obligation, row["o"]))


async def repeated(still, run):
    """What the poll that brought a task brings once more."""
    consumer = {name: run.owner[name] for name in ("worker_session_id", "consumer_id")}
    poll = {"scope": still.scope, "queue": "leased", "sequence": 1, "wait_ms": 0, **consumer}
    return (await still.call("acquire", AcquireCommand.from_json(poll)))["disposition"]


def attempt(run):
    return run.owner["attempt_id"]


@pytest.fixture
def namespace(request):
    """One for each test: the database is that of the module."""
    return f"pattern-{abs(hash(request.node.name))}"


async def test_the_ordinary_form(still, recorder, staged):
    """DLV-120, TASK-016: loads, then one call that applies; no transaction is open in between."""
    await walk(still, recorder, staged)
    assert set(recorder.shapes) == loads()
    for load, shapes in recorder.shapes.items():
        ordinary = "l*a?" if load in LOADED_BEFORE | REMEMBERED else "l+a?"
        assert all(re.fullmatch(ordinary, shape) for shape in shapes), (load, shapes)
        assert load in READS_ALONE or any(shape.endswith("a") for shape in shapes), (load, shapes)


async def test_the_locked_form(still, recorder, staged, monkeypatch):
    """RACE-01, RACE-14, RACE-18: after a miss every load is repeated in a statement that begins after the locks."""

    async def missed(_self, _connection, verdict):
        return not (verdict.records or verdict.guards)  # what changes nothing misses nothing

    monkeypatch.setattr(Transitions, "_applied", missed)
    await walk(still, recorder, staged)
    assert set(recorder.shapes) == loads()
    for load, shapes in recorder.shapes.items():
        assert all(re.fullmatch("l*(bk(l+a?)?[cr])*", shape) for shape in shapes), (load, shapes)
        assert load in READS_ALONE | TOGETHER or any(re.search("bkl+ac$", shape) for shape in shapes), (load, shapes)


async def test_nothing_else_writes(still, recorder, staged):
    """Every operation that may change something and every background step was among them, and only scopes are new."""
    start = len(recorder.statements)
    await walk(still, recorder, staged)
    changing = {route.operation for route in ROUTES if route.method == "POST"}
    assert recorder.operations >= changing
    assert recorder.steps == {"lease", *workflow_handlers.OBLIGATIONS, *workflow_handlers.AGENDA}
    by_hand = re.compile(r"update (wait|attempt|obligation) set|delete from obligation where workflow_id")
    written = {query for query in recorder.statements[start:] if _WRITES.search(query) and not by_hand.match(query)}
    assert written <= {scopes._ADD}


def test_sql_that_writes_stands_in_few_places():
    """A statement elsewhere that changes a row would go round the guards."""
    root = Path(protocol3.__file__).parent
    sources = (path for path in root.rglob("*.py") if "runtime" not in path.parts)
    found = {str(path.relative_to(root)) for path in sources if _WRITES.search(path.read_text())}
    assert found == WRITERS


def test_locks_stand_in_few_places():
    """A load that locks would be stale, so none does."""
    root = Path(protocol3.__file__).parent / "store/loads"
    found = {path.name for path in root.glob("*.py") if _LOCKS.search(path.read_text())}
    assert found == {"claims.py"}
    assert _LOCKS.search(claims._LOCK)
    assert not _LOCKS.search(claims._DUE + claims._GIVEN)
