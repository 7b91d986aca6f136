"""A scripted worker for workflows on the operations of a coordinator, and a coordinator whose loops stand still."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from protocol3.contract.models.common import LeaseOwner, Scope
from protocol3.contract.models.delivery import AcquireCommand, OpenSession, RenewCommand, SettleCommand
from protocol3.contract.models.tasks import SubmitCommand, TaskCancel, TaskQuery
from protocol3.contract.models.workflows import EventCommand, ForkCommand, LocalResultCommand, WorkflowRef
from protocol3.contract.strict_json import decode, encode
from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.operations import operations
from protocol3.coordinator.parts import Parts
from protocol3.coordinator.services import Services

PATIENCE_S = 20.0
"""A hang is a failure; nothing waits this long in a passing run."""
TERMINAL = ("succeeded", "failed", "cancelled")

_consumers = itertools.count()


class Ignored:
    """Nobody asks this coordinator for its readiness."""

    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


class Flow:
    """Commands as they come from the wire, in one scope; replies as JSON values."""

    def __init__(self, services: Services, namespace: str) -> None:
        self.services = services
        self.operations = operations(services)
        self.scope = {"tenant_id": "t", "namespace": namespace}
        self._sessions: dict[str, str] = {}

    async def call(self, name: str, command: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            reply = await getattr(self.operations, name)(command)
        return decode(reply) if isinstance(reply, bytes) else decode(encode(reply))

    def submission(self, key: str = "key", **input: Any) -> SubmitCommand:
        trace = input.pop("trace", None)
        program = {"id": "books", "version": "1"}
        fields = {**self.scope, "queue": "flows", "program": program, "data": {"month": 3}} | input
        return SubmitCommand.from_json({"idempotency_key": key, "input": fields, "origin_trace": trace})

    async def submit(self, key: str = "key", **input: Any) -> Any:
        """The snapshot of a workflow whose activations are retried at once."""
        retry = {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 0}}
        return await self.call("submit_workflow", self.submission(key, **(retry | input)))

    async def submit_task(self, key: str = "key", **input: Any) -> Any:
        return await self.call("submit_task", self.submission(key, **input))

    def ref(self, workflow_id: str) -> WorkflowRef:
        return WorkflowRef.from_json({"scope": self.scope, "workflow_id": workflow_id})

    async def status(self, workflow_id: str) -> Any:
        return await self.call("workflow_status", self.ref(workflow_id))

    async def result(self, workflow_id: str) -> Any:
        return await self.call("workflow_result", self.ref(workflow_id))

    async def cancel(self, workflow_id: str) -> Any:
        return await self.call("cancel_workflow", self.ref(workflow_id))

    async def task(self, task_id: str, name: str = "task_status") -> Any:
        return await self.call(name, TaskQuery(scope=Scope.from_json(self.scope), task_id=task_id))

    async def cancel_task(self, task_id: str) -> Any:
        return await self.call("cancel_task", TaskCancel.from_json({"scope": self.scope, "task_id": task_id}))

    async def send(self, workflow_id: str, key: str, **event: Any) -> Any:
        envelope = {
            "specversion": "1.0",
            "id": f"id-{key}",
            "source": "/desk",
            "type": "signed",
            "datacontenttype": "application/json",
            "data": None,
        } | event
        command = {"scope": self.scope, "workflow_id": workflow_id, "key": key, "event": envelope}
        return await self.call("send_event", EventCommand.from_json(command))

    async def until(self, workflow_id: str, *states: str) -> Any:
        """The status once the workflow is in one of the states, any terminal one by default."""
        return await eventually(
            lambda: self.status(workflow_id), lambda status: status["state"] in (states or TERMINAL)
        )

    async def outcome(self, workflow_id: str) -> Any:
        """The outcome once the workflow is terminal."""
        await self.until(workflow_id)
        return (await self.result(workflow_id))["outcome"]

    async def take(self, queue: str = "flows", *, wait_ms: int = 15_000) -> Run:
        """The next task of a queue, by a consumer of its own."""
        if queue not in self._sessions:
            opening = {"scope": self.scope, "queue": queue, "concurrency": 2**32 - 1}
            self._sessions[queue] = (await self.call("open_session", OpenSession.from_json(opening)))["id"]
        command = {
            "scope": self.scope,
            "queue": queue,
            "worker_session_id": self._sessions[queue],
            "consumer_id": next(_consumers),
            "sequence": 1,
            "wait_ms": wait_ms,
        }
        reply = await self.call("acquire", AcquireCommand.from_json(command))
        assert reply["disposition"] == "assigned", reply
        return Run(flow=self, assignment=reply["assignment"])

    async def start(self, queue: str = "flows") -> Run:
        """The next task of a queue, dispatched."""
        run = await self.take(queue)
        await run.dispatch()
        return run

    async def nothing(self, queue: str = "flows") -> bool:
        """True if the queue has no task to give now."""
        with pytest.raises(AssertionError, match="empty"):
            await self.take(queue, wait_ms=0)
        return True

    async def owed(self, kind: str | None = None) -> int:
        """Obligations of this scope that are still owed."""
        number = await self.services.scopes.require(Scope.from_json(self.scope))
        text = "select count(*) from obligation where scope_id = $1 and kind = coalesce($2, kind)"
        return int(await self.services.pool.fetchval(text, number, kind))

    async def settled(self) -> None:
        """Return when nothing is owed in this scope any more but to drains that have asked everything and wait."""
        number = await self.services.scopes.require(Scope.from_json(self.scope))
        text = "select 1 from obligation where scope_id = $1 and (kind <> 'drain' or version = 0) limit 1"
        await eventually(lambda: self.services.pool.fetchval(text, number), lambda owed: not owed)


async def eventually(look: Callable[[], Awaitable[Any]], enough: Callable[[Any], bool]) -> Any:
    """What a look found, once that is enough."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await look()
            if enough(found):
                return found
            await asyncio.sleep(0.005)


@dataclass
class Run:
    """One attempt of a task in the hands of a scripted worker."""

    flow: Flow
    assignment: Any

    @property
    def owner(self) -> Any:
        return self.assignment["lease"]["owner"]

    @property
    def event(self) -> Any:
        return self.assignment["event"]

    @property
    def task_id(self) -> str:
        return str(self.event["ldgtaskid"])

    @property
    def workflow_id(self) -> str:
        return str(self.event["ldgworkflowid"])

    async def dispatch(self, sequence: int = 1) -> Any:
        command = {"owner": self.owner, "sequence": sequence, "intent": "dispatch"}
        return await self.flow.call("renew", RenewCommand.from_json(command))

    async def context(self, **owner: Any) -> Any:
        return await self.flow.call("activation_context", LeaseOwner.from_json(self.owner | owner))

    async def local(self, key: str = "fx", **record: Any) -> Any:
        fields = {"key": key, "callable": "books:fx", "input": {"day": 2}, "output": 1.07} | record
        command = {"owner": self.owner, "record": fields}
        return await self.flow.call("commit_local_result", LocalResultCommand.from_json(command))

    async def fork(self, *keys: str, key: str = "f", trace: Any = None, **branch: Any) -> Any:
        fields = {"entrypoint": "double", "queue": "branches", "data": {"n": 1}} | branch
        command = {
            "owner": self.owner,
            "fork": {"key": key, "branches": [{"key": name, **fields} for name in keys]},
            "processing_trace": trace,
        }
        return await self.flow.call("accept_fork", ForkCommand.from_json(command))

    async def settle(self, outcome: Any = None, *, error: str | None = None, **changes: Any) -> Any:
        """Settle with a program's outcome, a success with `outcome` or a failed execution of kind `error`."""
        if error is not None:
            said = {
                "error": {"kind": error, "message": "why"},
                "phase": "execution",
                "execution_may_have_started": True,
            }
        else:
            said = {"process_id": 1, "reused_process": False, "elapsed_ms": 5, "outcome": outcome}
        command = {
            "owner": self.owner,
            "operation_id": "op",
            "report": {"kind": "completed" if error is None else "failed", "report": self._identity() | said},
            "quiescence": "confirmed",
        } | changes
        return await self.flow.call("settle", SettleCommand.from_json(command))

    async def succeed(self, output: Any, **changes: Any) -> Any:
        return await self.settle({"status": "success", "output": output}, **changes)

    async def confirm(self) -> Any:
        return await self.flow.call("confirm_quiescence", LeaseOwner.from_json(self.owner))

    async def decide(
        self,
        kind: str,
        *,
        revision: int | None = None,
        trace: Any = None,
        quiescence: str = "confirmed",
        **members: Any,
    ) -> Any:
        """Settle with a decision; checkpoint kinds get their members by default."""
        if revision is None:
            revision = (await self.context())["revision"]
        decision = {"v": 1, "activation_id": self.task_id, "revision": revision, "kind": kind}
        if kind in ("suspend", "continue", "wait"):
            decision |= {"state": None, "continuation": "next", "commands": []}
        if kind == "suspend":
            decision["until"] = []
        return await self.succeed(decision | members, processing_trace=trace, quiescence=quiescence)

    def _identity(self) -> dict[str, Any]:
        names = {
            "source": "source",
            "event_id": "id",
            "tenant_id": "ldgtenantid",
            "namespace": "ldgnamespace",
            "run_id": "ldgrunid",
            "task_id": "ldgtaskid",
            "attempt_id": "ldgattemptid",
            "attempt_no": "ldgattemptno",
            "workflow_id": "ldgworkflowid",
            "activation_id": "ldgactivationid",
            "parent_workflow_id": "ldgparentworkflowid",
            "root_workflow_id": "ldgrootworkflowid",
            "traceparent": "traceparent",
            "tracestate": "tracestate",
        }
        echoed = {name: self.event[attribute] for name, attribute in names.items() if attribute in self.event}
        descriptor = self.assignment["descriptor"]
        return echoed | {"program": descriptor["program"], "digest": descriptor["digest"]}


def command(key: str, **changes: Any) -> dict[str, Any]:
    """A staged child."""
    return {"key": key, "program": {"id": "rates", "version": "1"}, "queue": "rates", "data": {"day": 2}} | changes


@pytest.fixture(name="eventually")
def _eventually() -> Any:
    """`await eventually(look, enough)`: what a look found, once that is enough."""
    return eventually


@pytest.fixture
def staged() -> Any:
    """`staged(key, **members)` is a command for a child."""
    return command


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    return str(request.node.name[-100:])


@pytest.fixture
def flow(services: Services, namespace: str) -> Flow:
    """A scripted client and worker on a running coordinator."""
    return Flow(services, namespace)


@pytest.fixture
def still(pool: asyncpg.Pool[asyncpg.Record], programs: Any, namespace: str) -> Flow:
    """The same on a coordinator whose loops do not run, as if it always died right after the commit."""
    return Flow(assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored()), namespace)


class Apart(Parts):
    """Every decision is a step of its own, like one that has programs to resolve."""

    def applies_at_once(self, scope: Scope) -> bool:
        return False


@pytest.fixture
def apart(pool: asyncpg.Pool[asyncpg.Record], programs: Any, namespace: str) -> Flow:
    """A coordinator that stands still after each settlement of an activation too: its decision is owed."""
    return Flow(assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), parts=Apart()), namespace)


@pytest.fixture
def restarted(
    pool: asyncpg.Pool[asyncpg.Record], programs: Any, namespace: str
) -> Callable[[], AbstractAsyncContextManager[Flow]]:
    """`async with restarted() as flow`: a coordinator with running loops that finds what the still one left."""

    @asynccontextmanager
    async def _restarted() -> AsyncIterator[Flow]:
        await pool.execute("update obligation set ready_real = 0")
        async with running(assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored())) as services:
            yield Flow(services, namespace)

    return _restarted
