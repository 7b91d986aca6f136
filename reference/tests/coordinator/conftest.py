"""A coordinator without its HTTP edge: the operations on a database of the module, with its loops running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from protocol3.contract.models.common import Descriptor, LeaseOwner, ProgramRef, Scope
from protocol3.contract.models.delivery import AcquireCommand, ExtendSession, OpenSession, RenewCommand, SettleCommand
from protocol3.contract.models.tasks import (
    AttemptQuery,
    HistoryQuery,
    SubmitCommand,
    TaskCancel,
    TaskListQuery,
    TaskQuery,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import decode
from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.controls.clock import Advance, ScopeQuery, advance_clock, read_clock
from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.parts import ControlledParts
from protocol3.coordinator.controls.rules import AddFault, Pick
from protocol3.coordinator.operations import operations
from protocol3.coordinator.services import Services
from protocol3.programs.errors import ProgramError

PATIENCE_S = 20.0
"""A hang is a failure; nothing waits this long in a passing run."""


class Ignored:
    """Nobody asks this coordinator for its readiness."""

    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


class Programs:
    """A program store that can lose its programs, and counts what it is asked."""

    def __init__(self) -> None:
        self.failure: ProgramError | None = None
        self.asked = 0

    async def resolve(self, program: ProgramRef) -> Descriptor:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return Descriptor(program=program, digest="sha256:" + "a" * 64, size=4321)

    async def fetch(self, descriptor: Descriptor) -> bytes:
        raise AssertionError("a coordinator reads no archive")

    async def aclose(self) -> None: ...


class Client:
    """JSON commands as they come from the wire, in one scope; replies as JSON values.

    Times are moved by `age`, which lets a task and its attempts seem older than they are. The agenda keeps its entries,
    so an attempt that ran out stays unrecovered until `recover`. Whoever changes a record moves its version, here too.
    """

    def __init__(self, services: Services, namespace: str) -> None:
        self.services = services
        self.operations = operations(services)
        self.scope = {"tenant_id": "t", "namespace": namespace}

    async def send(self, name: str, command: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            reply = await getattr(self.operations, name)(command)
        return decode(reply) if isinstance(reply, bytes) else reply

    def submission(self, key: str = "key", **input: Any) -> dict[str, Any]:
        program = {"id": "hello", "version": "1"}
        return {"idempotency_key": key, "input": {**self.scope, "queue": "q", "program": program, "data": {}} | input}

    async def submit(self, key: str = "key", *, trace: Any = None, **input: Any) -> Any:
        command = self.submission(key, **input) | {"origin_trace": trace}
        return await self.send("submit_task", SubmitCommand.from_json(command))

    async def open(self, queue: str = "q", concurrency: int = 1) -> str:
        command = {"scope": self.scope, "queue": queue, "concurrency": concurrency}
        session = await self.send("open_session", OpenSession.from_json(command))
        return str(session["id"])

    async def extend(self, session: str) -> Any:
        return await self.send("extend_session", ExtendSession(worker_session_id=session))

    async def poll(self, session: str, sequence: int = 1, *, consumer: int = 0, wait_ms: int = 0, **other: Any) -> Any:
        command = {
            "scope": self.scope,
            "queue": "q",
            "worker_session_id": session,
            "consumer_id": consumer,
            "sequence": sequence,
            "wait_ms": wait_ms,
        }
        return await self.send("acquire", AcquireCommand.from_json(command | other))

    async def assignment(self, session: str, sequence: int = 1, **poll: Any) -> Any:
        reply = await self.poll(session, sequence, **poll)
        assert reply["disposition"] == "assigned"
        return reply["assignment"]

    async def renew(self, assignment: Any, sequence: int = 1, intent: str = "dispatch", **owner: Any) -> Any:
        command = {"owner": assignment["lease"]["owner"] | owner, "sequence": sequence, "intent": intent}
        return await self.send("renew", RenewCommand.from_json(command))

    def settlement(self, assignment: Any, report: Any = None, **changes: Any) -> dict[str, Any]:
        """A confirmed settlement; `report` holds what a report says besides its identity, a success by default."""
        if report is None:
            report = completed({"status": "success", "output": "done"})
        kind = "failed" if "error" in report else "completed"
        return {
            "owner": assignment["lease"]["owner"],
            "operation_id": "op",
            "report": {"kind": kind, "report": identity(assignment) | report},
            "quiescence": "confirmed",
            "processing_trace": None,
        } | changes

    async def settle(self, assignment: Any, report: Any = None, **changes: Any) -> Any:
        command = self.settlement(assignment, report, **changes)
        return await self.send("settle", SettleCommand.from_json(command))

    async def confirm(self, assignment: Any, **owner: Any) -> Any:
        return await self.send("confirm_quiescence", LeaseOwner.from_json(assignment["lease"]["owner"] | owner))

    async def cancel(self, task_id: str) -> Any:
        return await self.send("cancel_task", TaskCancel.from_json({"scope": self.scope, "task_id": task_id}))

    async def read(self, name: str, task_id: str, **more: Any) -> Any:
        """One of inspect_task, task_status, task_result."""
        scope = TaskCancel.from_json({"scope": self.scope, "task_id": task_id}).scope
        query = {"task_history": HistoryQuery, "inspect_attempt": AttemptQuery}.get(name, TaskQuery)
        return await self.send(name, query(scope=scope, task_id=task_id, **more))

    async def reasons(self, task_id: str) -> list[str]:
        return [record["event"]["reason"] for record in await self.read("task_history", task_id)]

    async def list(self, **filters: Any) -> Any:
        scope = TaskCancel.from_json({"scope": self.scope, "task_id": "any"}).scope
        return await self.send("list_tasks", TaskListQuery(scope=scope, **filters))

    async def age(self, task_id: str, ms: int) -> None:
        async with self.services.pool.acquire() as connection, connection.transaction():
            await connection.execute(
                "update task set submitted_at = submitted_at - $2, available_at = available_at - $2, "
                "version = version + 1 where id = $1",
                task_id,
                ms,
            )
            await connection.execute(
                "update attempt set claimed_at = claimed_at - $2, deadline = deadline - $2, authority_deadline = "
                "authority_deadline - $2, lease_expires_at = lease_expires_at - $2 where task_id = $1",
                task_id,
                ms,
            )

    async def recover(self, task_id: str) -> None:
        """Make the task's agenda entry due, and wait until the loop has handled it."""
        pool, agenda = self.services.pool, self.services.agenda
        await pool.execute("update agenda set due = 1 where kind = 'lease' and ref = $1", task_id)
        async with asyncio.timeout(PATIENCE_S):
            while await pool.fetchval("select 1 from agenda where kind = 'lease' and ref = $1 and due = 1", task_id):
                agenda.ring(0)
                await asyncio.sleep(0.005)

    async def expire_session(self, session: str) -> None:
        text = "update session set expires_at = 1, version = version + 1 where id = $1"
        await self.services.pool.execute(text, session)


def completed(outcome: Any) -> dict[str, Any]:
    return {"process_id": 1, "reused_process": False, "elapsed_ms": 5, "outcome": outcome}


def failed(kind: str, *, started: bool = True) -> dict[str, Any]:
    error = {"kind": kind, "message": "why"}
    return {"error": error, "phase": "execution", "execution_may_have_started": started}


def identity(assignment: Any) -> dict[str, Any]:
    """What a report must echo (chapter 07, Settlement)."""
    event, descriptor = assignment["event"], assignment["descriptor"]
    names = {
        "source": "source",
        "event_id": "id",
        "tenant_id": "ldgtenantid",
        "namespace": "ldgnamespace",
        "run_id": "ldgrunid",
        "task_id": "ldgtaskid",
        "attempt_id": "ldgattemptid",
        "attempt_no": "ldgattemptno",
        "traceparent": "traceparent",
        "tracestate": "tracestate",
    }
    echoed = {name: event[attribute] for name, attribute in names.items() if attribute in event}
    return echoed | {"program": descriptor["program"], "digest": descriptor["digest"]}


class ScopeClock:
    """The clock of one scope of a coordinator with test controls."""

    def __init__(self, services: Services, namespace: str) -> None:
        self.services = services
        self.scope = {"tenant_id": "t", "namespace": namespace}

    async def read(self) -> Any:
        return await read_clock(self.services, ScopeQuery(scope=Scope.from_json(self.scope)))

    async def advance(self, ms: int | None = None, **command: Any) -> Any:
        """By so many milliseconds, or to what is due next."""
        target: dict[str, Any] = {"to": "next_due"} if ms is None else {"advance_ms": ms}
        return await advance_clock(self.services, Advance.from_json({"scope": self.scope, **target, **command}))


class ScopeFaults:
    """Fault rules of one scope."""

    def __init__(self, faults: Faults, namespace: str) -> None:
        self.scope = {"tenant_id": "t", "namespace": namespace}
        self._faults = faults

    def add(self, what: str, act: str | dict[str, Any] = "hold", *, where: str = "received", **more: Any) -> str:
        """The id of a new rule for a POST route, by its path, or for a background step, by its name."""
        act = {"kind": act} if isinstance(act, str) else act
        match = {"method": "POST", "path": what} if what.startswith("/") else {"step": what}
        rule = {"scope": self.scope, "match": match, "where": where, "act": act} | more
        return str(self._faults.add(AddFault.from_json(rule))["id"])

    @property
    def hits(self) -> list[int]:
        return [rule["hits"] for rule in self._shown["faults"]]

    @property
    def held(self) -> list[Any]:
        return list(self._shown["held"])

    async def until_held(self, count: int = 1) -> list[Any]:
        """What is held, once it is as many."""
        held: list[Any] = await self._until(lambda: len(self.held) == count and self.held)
        return held

    async def until_hits(self, *hits: int) -> None:
        """Once the rules have struck so many times."""
        await self._until(lambda: self.hits == list(hits))

    def release(self, id: str | None = None) -> Any:
        return self._faults.release(Pick(scope=Scope.from_json(self.scope), id=id))["released"]

    def clear(self, id: str | None = None) -> Any:
        return self._faults.clear(Pick(scope=Scope.from_json(self.scope), id=id))

    @property
    def _shown(self) -> Any:
        return self._faults.shown(Scope.from_json(self.scope))

    async def _until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := true()):
                await asyncio.sleep(0.002)
        return found


async def _refused(call: Awaitable[Any]) -> str:
    with pytest.raises(Refusal) as caught:
        await call
    return caught.value.code


@pytest.fixture
def programs() -> Programs:
    return Programs()


@pytest.fixture
async def services(pool: asyncpg.Pool[asyncpg.Record], programs: Programs) -> AsyncIterator[Services]:
    async with running(assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored())) as services:
        yield services


@pytest.fixture
def controlled_parts() -> ControlledParts:
    return ControlledParts()


@pytest.fixture
async def controlled(
    pool: asyncpg.Pool[asyncpg.Record], programs: Programs, controlled_parts: ControlledParts
) -> AsyncIterator[Services]:
    """The same with test controls: for tests that make it their `services`."""
    await controlled_parts.prepare(pool)
    coordinator = assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), parts=controlled_parts)
    async with running(coordinator) as services:
        yield services


@pytest.fixture
def clock(services: Services, request: pytest.FixtureRequest) -> ScopeClock:
    """The clock of the test's own namespace."""
    return ScopeClock(services, namespace=request.node.name[-100:])


@pytest.fixture
def faults(controlled_parts: ControlledParts, request: pytest.FixtureRequest) -> ScopeFaults:
    """Fault rules of the test's own namespace."""
    return ScopeFaults(controlled_parts.faults, namespace=request.node.name[-100:])


@pytest.fixture
async def frozen_pool(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    """Connections on which the database's clock stands still: for tests that make it their `pool` and advance exactly.

    What a schema earlier in the search path calls `clock_timestamp` is what every statement and function gets. Ours
    does not stand still, so no decision is dated by it.
    """
    monkeypatch.setattr("protocol3.store.remembered.FRESH_S", -1.0)

    async def keep(_: object) -> None: ...

    path = {"search_path": "frozen, protocol3, pg_catalog"}
    async with asyncpg.create_pool(database, min_size=1, max_size=24, reset=keep, server_settings=path) as pool:
        await pool.execute(
            """
            create schema if not exists frozen;
            create table if not exists frozen.instant as select timestamptz '2026-05-04 12:00:00.250Z' as at;
            create or replace function frozen.clock_timestamp() returns timestamptz language sql volatile
              as 'select at from frozen.instant';
            """
        )
        yield pool


@pytest.fixture
def client(services: Services, request: pytest.FixtureRequest) -> Client:
    """Commands in a namespace of the test's own."""
    return Client(services, namespace=request.node.name[-100:])


@pytest.fixture
def report() -> Any:
    """Builders of what a report says: `report.completed(outcome)`, `report.failed(kind)`."""

    class Reports:
        completed = staticmethod(completed)
        failed = staticmethod(failed)

    return Reports


@pytest.fixture
def refused() -> Any:
    """`await refused(call)`: the error code of a call that must be refused."""
    return _refused
