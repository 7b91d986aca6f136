"""A coordinator that answers as the test says: the scripted half of the worker's tests."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from protocol3.contract.strict_json import decode, encode
from protocol3.programs.publish import Publication

PATIENCE_S = 20.0
"""A hang is a failure; nothing waits this long in a passing run."""

SCOPE = {"tenant_id": "north", "namespace": "reports"}

Answer = Callable[["ScriptedCoordinator", "Exchange"], Awaitable[Any]]


@dataclass
class Exchange:
    """One request as it came."""

    path: str
    body: Any
    raw: bytes
    carrier: str | None = None


@dataclass
class Attempt:
    """An assigned attempt: its assignment and what has been reported about it."""

    assignment: dict[str, Any]
    settlements: list[dict[str, Any]] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    renewals: list[dict[str, Any]] = field(default_factory=list)
    confirmed: bool = False
    lost: bool = False

    @property
    def owner(self) -> dict[str, Any]:
        return self.assignment["lease"]["owner"]

    @property
    def report(self) -> dict[str, Any]:
        return self.settlements[-1]["report"]["report"]

    async def end(self) -> dict[str, Any]:
        """The settlement command, once it was accepted."""
        await asyncio.wait_for(self.settled.wait(), PATIENCE_S)
        return self.settlements[-1]


class Lost(Exception):
    """The reply is lost: the connection ends without it."""


@dataclass
class Refuse(Exception):
    code: str
    status: int
    message: str | None = None


class ScriptedCoordinator:
    """Answers like a coordinator with one queue of assignments, unless an answer was scripted for the next request."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.scripts: dict[str, list[Answer]] = defaultdict(list)
        self.attempts: dict[str, Attempt] = {}
        self.contexts: dict[str, Any] = {}
        self.remaining_ms = 60_000
        self.execution_ms = 300_000
        self.cancelled: set[str] = set()
        self._work: asyncio.Queue[Attempt] = asyncio.Queue()
        self._cursors: dict[int, tuple[int, Attempt | None]] = {}
        self._changed = asyncio.Condition()
        self.url = ""

    def script(self, path: str, *answers: Answer) -> None:
        """Answers for the next requests on the route, in this order."""
        self.scripts[path].extend(answers)

    def seen(self, path: str) -> list[Any]:
        return [exchange.body for exchange in self.exchanges if exchange.path == path]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until the condition holds after some exchange."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(condition)

    def assign(self, publication: Publication, data: Any = None, **changes: Any) -> Attempt:
        """Give the next consumer that asks an attempt of this program."""
        number = len(self.attempts) + 1
        ids = {"task": f"task_{number}", "attempt": f"att_{number}"}
        event = {
            "specversion": "1.0",
            "id": f"evt_{number}",
            "source": "urn:ledgence:orchestrator",
            "type": "com.ledgence.task.invocation.requested.v1",
            "datacontenttype": "application/json",
            "ldgtenantid": SCOPE["tenant_id"],
            "ldgnamespace": SCOPE["namespace"],
            "ldgrunid": f"run_{number}",
            "ldgtaskid": ids["task"],
            "ldgattemptid": ids["attempt"],
            "ldgattemptno": 1,
            "data": data,
            **changes.pop("event", {}),
        }
        owner = {
            "scope": SCOPE,
            "task_id": ids["task"],
            "attempt_id": ids["attempt"],
            "lease_id": f"lease_{number}",
            "generation": 1,
            "worker_session_id": "ws_1",
            "consumer_id": 0,
        }
        assignment = {
            "descriptor": publication.descriptor.to_json(),
            "event": event,
            "lease": {"owner": owner, "expires_at": 1_900_000_000_000},
            "authority": None,
            "attempt_deadline": 1_900_000_000_000,
            **changes,
        }
        attempt = self.attempts[ids["attempt"]] = Attempt(assignment)
        self._work.put_nowait(attempt)
        return attempt

    def activate(self, publication: Publication, data: Any = None, **context: Any) -> Attempt:
        """Like ``assign``, for a workflow activation with this context."""
        task_id = f"task_{len(self.attempts) + 1}"
        attempt = self.assign(
            publication,
            data,
            event={"ldgworkflowid": "wf_1", "ldgactivationid": task_id},
            workflow_activation_id=task_id,
        )
        self.contexts[task_id] = {
            "v": 1, "workflow_id": "wf_1", "activation_id": task_id, "revision": 0, "continuation": "start",
            "state": None, "inputs": {}, "local_steps": [], **context,
        }  # fmt: skip
        return attempt

    def authority(self, attempt: Attempt, sequence: int, *, dispatch: bool, **changes: Any) -> dict[str, Any]:
        cancelled = attempt.owner["attempt_id"] in self.cancelled
        return {
            "owner": attempt.owner,
            "expires_at": 1_900_000_000_000,
            "remaining_ms": self.remaining_ms,
            "execution_remaining_ms": 0 if cancelled else self.execution_ms,
            "renew_sequence": sequence,
            "cancel_requested": cancelled,
            "dispatch_allowed": dispatch and not cancelled,
            **changes,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        body = decode(raw)
        exchange = Exchange(request.path, body, raw, request.headers.get("traceparent"))
        async with self._changed:
            self.exchanges.append(exchange)
            self._changed.notify_all()
        try:
            scripted = self.scripts[request.path]
            reply = await (scripted.pop(0)(self, exchange) if scripted else self.answer(request.path, body))
        except Lost:
            if request.transport is not None:
                request.transport.close()
            return web.Response()
        except Refuse as refusal:
            members = {"code": refusal.code} | ({} if refusal.message is None else {"message": refusal.message})
            return _json(members, refusal.status)
        return reply if isinstance(reply, web.StreamResponse) else _json(reply, 200)

    async def answer(self, path: str, body: Any) -> Any:
        """The ordinary answer."""
        match path:
            case "/v1/worker-sessions":
                return {"id": "ws_1", "expires_at": 1_900_000_000_000, **body}
            case "/v1/acquisitions":
                return await self._acquire(body)
            case "/v1/renewals":
                attempt = self._owned(body["owner"])
                attempt.renewals.append(body)
                return self.authority(attempt, body["sequence"], dispatch=body["intent"] == "dispatch")
            case "/v1/settlements":
                return await self._settle(body)
            case "/v1/quiescence-confirmations":
                attempt = self._owned(body)
                attempt.confirmed = True
                return "succeeded"
            case "/v1/workflows/activations/context":
                return self.contexts[self._owned(body).owner["task_id"]]
            case "/v1/workflows/local-results":
                return {"key": body["record"]["key"], "already_accepted": False}
            case "/v1/workflows/forks":
                keys = [branch["key"] for branch in body["fork"]["branches"]]
                return {"key": body["fork"]["key"], "branch_keys": keys, "already_accepted": False}
        raise Refuse("route_not_found", 404)

    async def _acquire(self, body: Any) -> Any:
        consumer, sequence = body["consumer_id"], body["sequence"]
        latest, held = self._cursors.get(consumer, (0, None))
        if sequence == latest:
            attempt = held
        else:
            attempt = await self._next(body.get("wait_ms", 0))
            if attempt is not None:
                attempt.owner["consumer_id"] = consumer
                attempt.assignment["authority"] = self.authority(attempt, 0, dispatch=False)
            self._cursors[consumer] = (sequence, attempt)
        if attempt is None:
            return {"disposition": "empty", "sequence": sequence}
        return {"disposition": "assigned", "sequence": sequence, "assignment": attempt.assignment}

    async def _next(self, wait_ms: int) -> Attempt | None:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await self._work.get()
        except TimeoutError:
            return None

    async def _settle(self, body: Any) -> Any:
        attempt = self._owned(body["owner"])
        known = bool(attempt.settlements)
        attempt.settlements.append(body)
        attempt.settled.set()
        owner = attempt.owner
        receipt = {
            "operation_id": body["operation_id"], "task_id": owner["task_id"], "attempt_id": owner["attempt_id"],
            "accepted_at": 1,
        }  # fmt: skip
        return {"receipt": receipt, "already_accepted": known, "task_state": "succeeded"}

    def _owned(self, owner: Any) -> Attempt:
        attempt = self.attempts[owner["attempt_id"]]
        assert owner == attempt.owner
        if attempt.lost:
            raise Refuse("ownership_lost", 409)
        return attempt


def _json(value: Any, status: int) -> web.Response:
    return web.Response(body=encode(value), status=status, content_type="application/json")


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    scripted = ScriptedCoordinator()
    # A poll that its sender has given up takes nothing any more.
    runner = web.ServerRunner(web.Server(scripted.handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}"
    yield scripted
    await runner.cleanup()


@pytest.fixture
def ordinary() -> Answer:
    """The ordinary answer, where others are scripted to follow."""

    async def answer(scripted: ScriptedCoordinator, exchange: Exchange) -> Any:
        return await scripted.answer(exchange.path, exchange.body)

    return answer


@pytest.fixture
def lost() -> Answer:
    """Perform the request, then lose the reply."""

    async def answer(scripted: ScriptedCoordinator, exchange: Exchange) -> Any:
        await scripted.answer(exchange.path, exchange.body)
        raise Lost

    return answer


@pytest.fixture
def refuse() -> Callable[..., Answer]:
    """``refuse(code, status, message=None)``."""

    def make(code: str, status: int, message: str | None = None) -> Answer:
        async def answer(_: ScriptedCoordinator, __: Exchange) -> Any:
            raise Refuse(code, status, message)

        return answer

    return make


@pytest.fixture
def reply() -> Callable[[Any], Answer]:
    """``reply(value)``: a value, a response, or a function of the request's body."""

    def make(value: Any) -> Answer:
        async def answer(_: ScriptedCoordinator, exchange: Exchange) -> Any:
            return value(exchange.body) if callable(value) else value

        return answer

    return make
