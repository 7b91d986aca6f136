"""The order of checks, the budget of an exchange, and the mapping of every outcome to a reply (chapter 03).

The order is HTTP-010 to HTTP-021; the first failing step decides the reply.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aiohttp.web_request import BaseRequest

from protocol3.contract import media_type
from protocol3.contract.limits import EXCHANGE_MS
from protocol3.contract.models.common import Scope, TraceContext
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.coordinator import log
from protocol3.coordinator.budget import body_bytes, computed, exchange_deadline
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.body import read_body, refuse_body, uninvited
from protocol3.coordinator.http.connection import Connection
from protocol3.coordinator.http.reply import Reply, new_request_id, refused
from protocol3.coordinator.http.routes import ROUTES, Command, Route, scope_of, waits
from protocol3.coordinator.observation import METHODS, Exchange, Observer, collect, note_command
from protocol3.store.outage import DatabaseAway

_LIVE: Final = "/health/live"
_READY: Final = "/health/ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """A route and the bound operation behind it."""

    route: Route
    operation: "Callable[[Command], Awaitable[JsonValue | bytes]]"


class Exchanges:
    """The handler of every request: call it with one, get the reply. Knows what is under way, for the shutdown.

    `operations` has a coroutine method for each `Route.operation`; a missing one is an AttributeError here, at start.
    With `fixed_scope` a command that names another scope is `404/not_found` before its operation (HTTP-020); the
    extension of a session names none and is judged by its operation (DLV-313). `budget_s` is a parameter for tests.
    `observers` are told of every answered exchange but those of health, after the log.
    """

    def __init__(
        self,
        operations: object,
        health: Health,
        *,
        fixed_scope: Scope | None = None,
        routes: Iterable[Route] = ROUTES,
        budget_s: float = EXCHANGE_MS / 1000,
        observers: Iterable[Observer] = (),
    ) -> None:
        self._paths: dict[str, dict[str, _Served]] = {}
        for route in routes:
            served = _Served(route=route, operation=getattr(operations, route.operation))
            self._paths.setdefault(route.path, {})[route.method] = served
        self._health = health
        self._fixed_scope = fixed_scope
        self._budget_s = budget_s
        self._observers = (log.exchange, *observers)
        self._closing = False
        self.active = 0
        """How many admitted exchanges are under way."""
        self._idle = asyncio.Event()
        self._idle.set()

    def begin_shutdown(self) -> None:
        """From now on known routes answer 503 at once; what was admitted runs on within its budget (HTTP-083)."""
        self._closing = True
        self._health.shutting_down()

    async def drained(self) -> None:
        """Returns when no admitted exchange is under way; each ends within its budget."""
        await self._idle.wait()

    async def __call__(self, request: BaseRequest) -> Reply:
        """The reply to one request."""
        began, started = time.perf_counter(), asyncio.get_running_loop().time()
        path, mark, query = _target(request.raw_path)
        if path in (_LIVE, _READY):
            return self._probe(path, request.method)
        request_id, subjects = new_request_id(), collect()
        try:
            served = self._route(path, request.method)
            body = await self._admitted(served, request, mark + query, started, request_id)
            reply = Reply(200, body, request_id=request_id)  # HTTP-060, whatever the operation found
            code = None
        except Refusal as refusal:
            code = refusal.code
            allow = ", ".join(sorted(self._paths[path])) if code == "method_not_allowed" else None
            unread = uninvited(request) or Connection.of(request).cut is request.content
            reply = refused(refusal, request_id=request_id, allow=allow, close=unread or self._closing)
        self.observe(
            Exchange(
                request_id=request_id,
                method=request.method if request.method in METHODS else None,
                route=path if path in self._paths else None,
                status=reply.status,
                code=code,
                seconds=time.perf_counter() - began,  # uvloop's own time stands still within a turn of the loop
                subjects=subjects,
                carrier=_carrier(request),
            )
        )
        return reply

    def observe(self, exchange: Exchange) -> None:
        """Tell everybody who observes; what fails there is logged and changes nothing."""
        for tell in self._observers:
            try:
                tell(exchange)
            except Exception as error:  # noqa: BLE001  # the reply is decided, whatever became of its record
                log.failure(error, event="observation failed", request_id=exchange.request_id)

    def _route(self, path: str, method: str) -> _Served:
        """Steps 1 to 3: path, method, admission (HTTP-010…012).

        Paths are compared as they came (HTTP-004). HEAD and OPTIONS are methods like others (HTTP-022). The codes of
        steps 1 and 2 belong to no operation (HTTP-070).
        """
        methods = self._paths.get(path)
        if methods is None:
            raise Refusal("route_not_found")
        served = methods.get(method)
        if served is None:
            raise Refusal("method_not_allowed")
        if self._closing:
            raise Refusal("unavailable", "the service is shutting down")
        return served

    async def _admitted(
        self, served: _Served, request: BaseRequest, query: str, started: float, request_id: str
    ) -> bytes:
        """Steps 4 to 8, counted as under way. Whatever goes wrong becomes a Refusal (HTTP-067, TASK-021)."""
        self.active += 1
        self._idle.clear()
        try:
            return await self._judged(served, request, query, started + self._budget_s)
        except (Exception, asyncio.CancelledError) as error:  # here a fault becomes a reply
            if isinstance(error, Refusal) or _cancelled():
                raise
            if isinstance(error, DatabaseAway):  # its beginning is in the log
                raise Refusal("unavailable", "the database cannot be reached") from None
            log.failure(error, event="exchange failed", request_id=request_id, route=served.route.path)
            raise Refusal("unavailable", "the service could not complete the exchange") from None
        finally:
            self.active -= 1
            if not self.active:
                self._idle.set()

    async def _judged(self, served: _Served, request: BaseRequest, query: str, deadline: float) -> bytes:
        """Steps 4 to 8 within the budget (HTTP-080…082): the encoded reply. Raises whatever the operation raises.

        A poll whose client is gone ends at once, like one whose budget is over; nothing else is abandoned (HTTP-084).
        A 503 for the budget says nothing about what was stored (HTTP-068).
        """
        connection = Connection.of(request)
        loop = asyncio.get_running_loop()
        exchange_deadline.set(deadline)
        try:
            async with asyncio.timeout_at(deadline) as budget:
                command = await _command(served.route, request, query)
                note_command(command)
                self._check_scope(command)
                if waits(command):
                    if connection.ended:
                        raise Refusal("unavailable", "the client ended the connection")
                    connection.waiting = budget
                result = await served.operation(command)  # HTTP-021
                body = result if isinstance(result, bytes) else encode(result)
        except Exception:  # the clean-up of what was cut off may fail in ways of its own
            if not budget.expired():
                raise
            late = loop.time() >= deadline
            reason = "the exchange took longer than its budget" if late else "the client ended the connection"
            raise Refusal("unavailable", reason) from None
        finally:
            connection.waiting = None
        if loop.time() >= deadline:
            raise Refusal("unavailable", "the exchange took longer than its budget")
        if len(body) > served.route.reply_limit:  # JSON-070, HTTP-069
            raise Refusal("unavailable", "the reply would exceed its size limit")
        return body

    def _check_scope(self, command: Command) -> None:
        if self._fixed_scope is not None:
            scope = scope_of(command)
            if scope is not None and scope != self._fixed_scope:
                raise Refusal("not_found")

    def _probe(self, path: str, method: str) -> Reply:
        """A health route: no scope, no Request-Id, no admission (HTTP-023, HTTP-093)."""
        if method not in ("GET", "HEAD"):
            return Reply(405, None, allow="GET, HEAD")
        status, document = self._health.live() if path == _LIVE else self._health.ready()
        return Reply(status, encode(document))


def _target(raw: str) -> tuple[str, str, str]:
    """Path, `?` if there is one, query. The absolute form of a target stands for its path (RFC 9112 section 3.2.2).

    A `#` stays where it is; no known path has one (HTTP-004).
    """
    path, mark, query = raw.partition("?")
    if not path.startswith("/"):
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path, mark, query


async def _command(route: Route, request: BaseRequest, query: str) -> Command:
    """Steps 4 to 6: the command in a GET's query or a POST's body. `query` begins with its `?` if there is one."""
    if route.method == "GET":
        await refuse_body(request)
        octets = query[1:].encode("utf-8", "surrogateescape")
        if len(octets) > route.query_limit:
            raise invalid("query", f"longer than {route.query_limit} bytes")
        return route.decode(octets)  # HTTP-014; the headers of a GET were not looked at (HTTP-024)
    if query:
        raise invalid("query", "none is allowed here")  # HTTP-015
    headers = request.headers
    media_type.check(headers.getall("Content-Type", ()), headers.getall("Content-Encoding", ()))  # HTTP-016
    body = await read_body(request, route.request_limit)
    body_bytes.set(len(body))
    return await computed(lambda: route.decode(body))


def _carrier(request: BaseRequest) -> TraceContext | None:
    """The trace that the client's transport headers name (TRC-012)."""
    parents = request.headers.getall("traceparent", ())
    return TraceContext.from_headers(parents, request.headers.getall("tracestate", ())) if parents else None


def _cancelled() -> bool:
    """Whether this exchange is being cancelled, as opposed to something that its operation waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
