"""A raw HTTP client and a small server: the edge with scripted operations behind short routes."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from protocol3.contract.models.common import Scope
from protocol3.contract.models.sessions import AcquireCommand
from protocol3.contract.query import decode as decode_query
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.http.listener import Listener
from protocol3.coordinator.http.routes import Route

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if find_spec("uvloop") is not None:
    LOOPS["uvloop"] = import_module("uvloop").new_event_loop


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests of connections and of ends run on both loops: the transports differ in how they end."""
    on_both = item.path.stem in ("test_connection", "test_budget")
    return LOOPS if on_both else {"asyncio": asyncio.new_event_loop}


PATIENCE_S = 20.0
"""A hang is a failure; nothing here takes longer than a moment, lingering apart."""


@dataclass
class Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value

    @property
    def json(self) -> Any:
        return decode(self.body)

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.json["code"]


class Wire:
    """One socket: bytes out, replies in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        """No more bytes from this side; replies may still come."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Leave without a word: the other side learns of it by a reset."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def line(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(b"\r\n")

    async def interim(self) -> bytes:
        line = await self.line()
        assert await self.line() == b"\r\n"
        return line.rstrip()

    async def answer(self, *, head_only: bool = False) -> Answer:
        version, status, reason = (await self.line()).decode("ascii").rstrip().split(" ", 2)
        assert version == "HTTP/1.1"
        headers = []
        while (line := await self.line()) != b"\r\n":
            name, _, value = line.decode("ascii").partition(":")
            headers.append((name, value.strip()))
        answer = Answer(status=int(status), reason=reason, headers=headers, body=b"")
        length = 0 if head_only else int(answer.one("Content-Length"))
        async with asyncio.timeout(PATIENCE_S):
            answer.body = await self.reader.readexactly(length)
        return answer

    async def ended(self) -> bool:
        """True once the server has ended its side without another byte."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read(1) == b""

    @staticmethod
    def head(method: str, target: str, *headers: str) -> bytes:
        return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: test", *headers, "", ""]).encode("latin-1")

    @classmethod
    def request(cls, target: str, body: bytes, *headers: str) -> bytes:
        """A POST of JSON bytes with their length."""
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
        return cls.head("POST", target, *fields) + body

    async def ask(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def get(self, target: str, *headers: str) -> Answer:
        return await self.ask(self.head("GET", target, *headers))

    async def post(self, target: str, body: bytes, *headers: str) -> Answer:
        return await self.ask(self.request(target, body, *headers))

    async def still_serves(self) -> bool:
        """Whether the connection takes another exchange."""
        answer = await self.post("/v1/both", b'"again"')
        return answer.status == 200 and answer.json == "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    value: JsonValue
    scope: Scope | None = None


@dataclass
class Operations:
    """Scripted: records commands; `entered` and `release` are the two sides of an operation that is held."""

    commands: list[object] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    finished: list[str] = field(default_factory=list)
    act: Callable[[], Awaitable[Any]] | None = None

    async def echo(self, command: Command) -> Any:
        self.commands.append(command)
        return command.value if self.act is None else await self.act()

    async def stubborn(self, command: object) -> JsonValue:
        """Held, and slow to end when it is cancelled."""
        try:
            return await self.held(command)
        finally:
            self.ended.set()
            await self.release.wait()

    async def held(self, command: object) -> JsonValue:
        self.commands.append(command)
        self.entered.set()
        try:
            await self.release.wait()
            self.finished.append("done")
        except asyncio.CancelledError:
            self.finished.append("cancelled")
            raise
        return "released"


def read(raw: bytes) -> Command:
    try:
        value = decode(raw)
    except InvalidJson as error:
        raise invalid("body", str(error)) from None
    named = value.get("scope") if isinstance(value, dict) else None
    return Command(value=value, scope=None if named is None else Scope.from_json(named))


def ask(raw: bytes) -> Command:
    return Command(value=dict(decode_query(raw)))


def poll(raw: bytes) -> AcquireCommand:
    return AcquireCommand.from_json(decode(raw))


LIMIT = 100
ROUTES = (
    Route(method="POST", path="/v1/both", request_limit=LIMIT, reply_limit=LIMIT, decode=read, operation="echo"),
    Route(method="GET", path="/v1/both", query_limit=16384, reply_limit=20000, decode=ask, operation="echo"),
    Route(method="POST", path="/v1/post", request_limit=8 << 20, reply_limit=8 << 20, decode=read, operation="echo"),
    Route(method="GET", path="/v1/get", query_limit=50, reply_limit=LIMIT, decode=ask, operation="echo"),
    Route(method="POST", path="/v1/held", request_limit=LIMIT, reply_limit=LIMIT, decode=read, operation="held"),
    Route(method="GET", path="/v1/held", query_limit=50, reply_limit=LIMIT, decode=ask, operation="held"),
    Route(method="POST", path="/v1/poll", request_limit=1000, reply_limit=LIMIT, decode=poll, operation="held"),
    Route(method="POST", path="/v1/slow", request_limit=1000, reply_limit=LIMIT, decode=poll, operation="stubborn"),
)


@dataclass
class Edge:
    operations: Operations
    exchanges: Exchanges
    listener: Listener
    health: Health
    wires: list[Wire] = field(default_factory=list)

    async def connect(self) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, limit=1 << 25)
        wire = Wire(reader, writer)
        self.wires.append(wire)
        return wire

    async def entered(self) -> None:
        """The held operation has begun."""
        async with asyncio.timeout(PATIENCE_S):
            await self.operations.entered.wait()

    async def drained(self) -> None:
        """No exchange is under way."""
        async with asyncio.timeout(PATIENCE_S):
            await self.exchanges.drained()

    async def gone(self) -> None:
        """The server knows that its only client has left."""
        async with asyncio.timeout(PATIENCE_S):
            await self.connection()._gone.wait()

    def connection(self) -> Any:
        """The server's end of the only connection."""
        (connection,) = self.listener._connections.connections
        return connection


Start = Callable[..., Awaitable[Edge]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts an edge; keyword arguments go to `Exchanges`."""
    edges: list[Edge] = []

    async def begin(**options: Any) -> Edge:
        operations = Operations()
        health = Health(asyncio.get_running_loop().time)
        exchanges = Exchanges(operations, health, **{"routes": ROUTES} | options)
        edge = Edge(operations, exchanges, await Listener.open(exchanges), health)
        edges.append(edge)
        return edge

    yield begin
    for edge in edges:
        for wire in edge.wires:
            wire.writer.close()
        edge.operations.release.set()
        await edge.listener.close(grace_s=1.0)


@pytest.fixture
async def edge(start: Start) -> Edge:
    return await start()


@pytest.fixture
async def wire(edge: Edge) -> Wire:
    return await edge.connect()
