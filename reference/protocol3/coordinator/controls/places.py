"""The places that a process with test controls reaches: around operations and steps, inside transitions, in the store.

Nothing below knows of them: operations, handlers and the program store are wrapped, and a transition that a rule waits
for takes the locked form.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import replace
from typing import Final, TypeAlias

import asyncpg

from protocol3.contract.models.common import Descriptor, ProgramRef, Scope
from protocol3.contract.models.sessions import ExtendSession
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.background import due, obligations
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.controls.faults import Faults, Injected, present_scope
from protocol3.coordinator.controls.rules import Exchange, Step, StepName
from protocol3.coordinator.http.routes import Command, Route, scope_of
from protocol3.coordinator.services import Services
from protocol3.core.claim import Claims
from protocol3.core.records import Agenda, Obligation
from protocol3.core.verdict import Accepted, Guard, Wake
from protocol3.programs.errors import ProgramError
from protocol3.programs.stores import ProgramStore
from protocol3.store.connections import Connection
from protocol3.store.loads.claims import Asked
from protocol3.store.scopes import Scopes
from protocol3.store.transition import Transitions
from protocol3.telemetry.tracing import Tracing

OBLIGATION_STEPS: Final[Mapping[str, StepName]] = {
    "decision": "decision.apply",
    "child": "completion.deliver",
    "wake": "wait.fire",
    "drain": "drain.pass",
}
AGENDA_STEPS: Final[Mapping[str, StepName]] = {"lease": "attempt.expire", "wait": "wait.fire"}

_SESSION_SCOPE: Final = """
select tenant, namespace from session s join scope on scope.id = s.scope_id where s.id = $1
"""

# An entry of a lease may be early; then it only moves, and nothing expires.
_LEASE_ENDED: Final = """
select {now(t.scope_id)} >= least(a.lease_expires_at, a.authority_deadline)
from task t join attempt a on a.id = t.current_attempt_id where t.id = $1
"""

_WORK: Final = """
select exists (select from task where scope_id = $1 and queue = $2 and state = 'queued'
  and available_at <= (select {now($1)}))
"""

#: Transitions that rules hold at a time in one process; the pool has more connections than that.
HELD_INSIDE: Final = 24

_log: Final = logging.getLogger("protocol3.controls")

Operation: TypeAlias = "Callable[[Command], Awaitable[JsonValue | bytes]]"


class FaultyTransitions(Transitions):
    """Transitions by the clocks of scopes, with the places inside them.

    One that a rule waits for inside is applied alone, at `locked` in the locked form: what becomes of it is no other's.
    """

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        on_commit: Callable[[tuple[Wake, ...]], None],
        faults: Faults,
    ) -> None:
        super().__init__(pool, on_commit=on_commit, virtual=True)
        self._faults = faults
        self._inside = asyncio.Semaphore(HELD_INSIDE)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Few at a time that a rule may hold together with it: other scopes shall not notice (TST-003, TST-026)."""
        async with AsyncExitStack() as stack:
            if self._inside_expected():
                await stack.enter_async_context(self._inside)
            yield await stack.enter_async_context(self.pool.acquire())

    def _inside_expected(self) -> bool:
        return self._faults.expected("locked") or self._faults.expected("written")

    def _recalls(self) -> bool:
        """One that a rule waits for inside takes the whole way."""
        return not self._inside_expected() and super()._recalls()

    def _goes_alone(self, verdict: Accepted) -> bool:
        return self._inside_expected() or super()._goes_alone(verdict)

    async def _applied(self, connection: Connection, verdict: Accepted) -> bool:
        return not self._faults.expected("locked") and await super()._applied(connection, verdict)

    async def _lock(self, connection: Connection, guards: tuple[Guard, ...]) -> None:
        """TST-022: the place `locked`: guards held, nothing read or written. Time may go on there, so the clock comes
        last.
        """
        if not self._faults.expected("locked"):
            await super()._lock(connection, guards)
            return
        await super()._lock(connection, tuple(guard for guard in guards if guard.kind != "clock"))
        await self._faults.reach("locked")
        await super()._lock(connection, tuple(guard for guard in guards if guard.kind == "clock"))

    async def _write(self, connection: Connection, verdict: Accepted) -> bool:
        """The place `written`: inside a transaction, so that others see none of it and a crash undoes it."""
        if not self._faults.expected("written"):
            return await super()._write(connection, verdict)
        async with connection.transaction():
            written = await super()._write(connection, verdict)
            if written:
                await self._faults.reach("written")
        return written


class FaultyClaiming(Claiming):
    """Claims as occasions. What is committed is a task for somebody, not the news that there is none.

    Where there is none, polls are only judged, which is no claim; and no claim is for those that this answers.
    """

    def __init__(
        self,
        transitions: Transitions,
        scopes: Scopes,
        tracing: Tracing,
        scope_id: int,
        queue: str,
        *,
        faults: Faults,
    ) -> None:
        super().__init__(transitions, tracing, scope_id, queue)
        self._scopes = scopes
        self._faults = faults

    async def __call__(self, connection: Connection, asked: Sequence[Asked], *, claim: bool) -> Claims:
        work = claim and await connection.fetchval(self._transitions.sql(_WORK), self._scope_id, self._queue)
        judged = await super().__call__(connection, asked, claim=False)
        if not work:
            return judged
        if judged.answered:
            return replace(judged, next_ms=0)  # the others at once
        scope = await self._scopes.named(self._scope_id)
        with self._faults.occasion(scope, Step(name="task.claim"), None):
            await self._faults.reach("received")
            claims = await super().__call__(connection, asked, claim=True)
            if claims.assigned:
                await self._faults.reach("committed")
        return claims


class FaultyPrograms:
    """A program store whose answers are background steps of the scope that asks."""

    def __init__(self, programs: ProgramStore, faults: Faults) -> None:
        self._programs = programs
        self._faults = faults

    async def resolve(self, program: ProgramRef) -> Descriptor:
        scope = present_scope()
        if scope is not None:
            with self._faults.occasion(scope, Step(name="program.resolve"), None):
                try:
                    await self._faults.reach("received")
                except Injected:
                    raise ProgramError("unavailable", "as a fault rule says") from None
        return await self._programs.resolve(program)

    async def fetch(self, descriptor: Descriptor) -> bytes:
        return await self._programs.fetch(descriptor)

    async def aclose(self) -> None:
        await self._programs.aclose()


def faulty_operation(services: Services, faults: Faults, route: Route, operation: Operation) -> Operation:
    """The operation of a route as an occasion."""
    match = Exchange(method=route.method, path=route.path)

    async def operate(command: Command) -> JsonValue | bytes:
        scope = await _scope_of(services, command)
        if scope is None:
            return await operation(command)
        with faults.occasion(scope, match, _subject_of(command)):
            try:
                await faults.reach("received")
                reply = await operation(command)
                await faults.reach("committed")
            except Injected:
                raise Refusal("unavailable", "a fault rule ended the exchange") from None
        return reply

    return operate


async def _scope_of(services: Services, command: Command) -> Scope | None:
    """TST-021: the scope of a command; that of its session where it names none."""
    if not isinstance(command, ExtendSession):
        return scope_of(command)
    row = await services.pool.fetchrow(_SESSION_SCOPE, command.worker_session_id)
    return None if row is None else Scope(tenant_id=row["tenant"], namespace=row["namespace"])


def _subject_of(command: Command) -> str | None:
    """The workflow or task that a command names."""
    owner = getattr(command, "owner", command)
    subject: str | None = getattr(command, "workflow_id", None) or getattr(owner, "task_id", None)
    return subject


def faulty_obligation(faults: Faults, name: StepName, handler: obligations.Handler) -> obligations.Handler:
    """The handler as an occasion."""

    async def handle(services: Services, *held: Obligation) -> None:
        scope = await services.scopes.named(held[0].scope_id)
        with faults.occasion(scope, Step(name=name), held[0].workflow_id):
            await faults.reach("received")
            await handler(services, *held)
            await faults.reach("committed")

    return handle


def faulty_obligations(faults: Faults, handlers: Mapping[str, obligations.Handler]) -> dict[str, obligations.Handler]:
    """The handlers as occasions."""
    return {kind: faulty_obligation(faults, OBLIGATION_STEPS[kind], handler) for kind, handler in handlers.items()}


class FaultyAgenda:
    """TST-026: the handlers as occasions. What a rule is about is handled aside: a held entry must not hold up the
    others.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._aside: dict[tuple[str, str], asyncio.Task[None]] = {}

    def handlers(self, handlers: Mapping[str, due.Handler]) -> dict[str, due.Handler]:
        return {kind: self._faulty(Step(name=AGENDA_STEPS[kind]), handler) for kind, handler in handlers.items()}

    def _faulty(self, step: Step, handler: due.Handler) -> due.Handler:
        async def handle(services: Services, entry: Agenda) -> bool | None:
            scope, key = await services.scopes.named(entry.scope_id), (entry.kind, entry.ref)
            if key not in self._aside:
                if not self._faults.concern(scope, step) or await _is_early(services, entry):
                    return await handler(services, entry)
                occasion = self._occasion(services, scope, step, handler, entry)
                self._aside[key] = asyncio.create_task(occasion, context=Context())
            return False

        return handle

    async def _occasion(
        self, services: Services, scope: Scope, step: Step, handler: due.Handler, entry: Agenda
    ) -> None:
        try:
            with self._faults.occasion(scope, step, entry.ref):
                await self._faults.reach("received")
                await handler(services, entry)
                await self._faults.reach("committed")
        except Exception as error:  # noqa: BLE001  # the entry stays, the next pass tries again
            _log.warning("%s of %s failed: %s", entry.kind, entry.ref, type(error).__name__)
        finally:
            del self._aside[entry.kind, entry.ref]


async def _is_early(services: Services, entry: Agenda) -> bool:
    if entry.kind != "lease":
        return False
    return await services.pool.fetchval(services.transitions.sql(_LEASE_ENDED), entry.ref) is not True
