"""Coordinators as processes on a PostgreSQL that the tests kill, stop, stall and crowd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.layout import descriptor_path, encode_descriptor
from protocol3.store.database import migrate
from protocol3.store.embedded import EmbeddedPostgres

PATIENCE_S = 40.0
"""A hang is a failure; nothing waits this long in a passing run."""
#: A killed process loses nothing that the system has; commits must have got that far.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "30"}


async def eventually(look: Callable[[], Awaitable[Any]], enough: Callable[[Any], Any] = bool) -> Any:
    """What a look found, once that is enough."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await look()
            if enough(found):
                return found
            await asyncio.sleep(0.02)


def descendants_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            pid, _, rest = stat.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == parent:
                found.append(int(pid))
    return found


class Database:
    """A PostgreSQL server of the module, and what can happen to it."""

    def __init__(self, folder: Path) -> None:
        self.server = EmbeddedPostgres(folder / "base", settings=SETTINGS)
        self.start()
        self.url = self.server.dsn
        asyncio.run(migrate(self.url))

    def start(self) -> None:
        self.server.start()
        self.runs = True

    def stop(self) -> None:
        self.server.stop()
        self.runs = False

    def kill(self) -> None:
        """SIGKILL of the whole tree."""
        self._signal(signal.SIGKILL)
        self.server.wait()
        self.stop()

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Nothing of it answers, nothing is closed."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid in (self.server.pid, *descendants_of(self.server.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def ask(self, text: str, *values: object) -> Any:
        connection = await asyncpg.connect(self.url, server_settings={"search_path": "protocol3"})
        try:
            return await connection.fetchval(text, *values)
        finally:
            await connection.close()

    async def cut(self) -> int:
        """End every session of coordinators; how many there were."""
        ended = "count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'protocol3%'"
        return int(await self.ask(f"select {ended}"))

    async def listeners(self) -> int:
        """Sessions that listen for hints."""
        return int(await self.ask("select count(*) from pg_stat_activity where application_name = 'protocol3 hints'"))

    @contextlib.asynccontextmanager
    async def crowded(self) -> AsyncIterator[None]:
        """Every connection that the server still gives is taken."""
        taken: list[asyncpg.Connection[asyncpg.Record]] = []
        try:
            with contextlib.suppress(asyncpg.TooManyConnectionsError):
                while True:
                    taken.append(await asyncpg.connect(self.url))
            yield
        finally:
            for connection in taken:
                connection.terminate()


class Coordinator:
    """`protocol3 orchestrator serve --database-url`."""

    url: str

    def __init__(self, database: Database, store: Path, log: Path) -> None:
        self.log = log
        serve = ["-m", "protocol3.cli", "orchestrator", "serve", "--listen", "127.0.0.1:0", "--store", str(store)]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *serve, "--database-url", database.url],
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def started(self) -> Coordinator:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.url = json.loads(line)["url"]
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)

    def changes(self) -> list[Any]:
        """What its log says about the database: JSON lines."""
        lines = re.findall(r"^[^{\n]*(\{.*\})$", self.log.read_text(), re.MULTILINE)
        return [line for line in map(json.loads, lines) if line.get("event", "").startswith("database ")]


class Wire:
    """Commands to one coordinator, in one scope."""

    def __init__(self, session: aiohttp.ClientSession, url: str, namespace: str) -> None:
        self._session = session
        self.url = url
        self.scope = {"tenant_id": "t", "namespace": namespace}

    async def exchange(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """Status and document."""
        async with asyncio.timeout(PATIENCE_S):
            async with self._session.request(method, self.url + path, json=body, params=query) as reply:
                return reply.status, await reply.json()

    async def post(self, path: str, **members: Any) -> tuple[int, Any]:
        return await self.exchange("POST", path, {"scope": self.scope} | members)

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        return await self.exchange("GET", path, **(self.scope | query))

    async def sure(self, call: Callable[[], Awaitable[tuple[int, Any]]]) -> Any:
        """The document of the 200 that the identical command gets in the end (HTTP-068)."""
        status, document = await eventually(call, lambda reply: reply[0] != 503)
        assert status == 200, document
        return document

    def submission(self, key: str, **input: Any) -> dict[str, Any]:
        program = {"id": "hello", "version": "1"}
        return {"idempotency_key": key, "input": {**self.scope, "queue": "q", "program": program, "data": {}} | input}

    async def submit(self, key: str = "key", path: str = "/v1/tasks", **input: Any) -> Any:
        return await self.sure(lambda: self.exchange("POST", path, self.submission(key, **input)))

    async def open(self, queue: str = "q") -> str:
        opening = {"queue": queue, "concurrency": 64}
        return str((await self.sure(lambda: self.post("/v1/worker-sessions", **opening)))["id"])

    def poll(self, session: str, sequence: int, *, queue: str = "q", consumer: int = 0, wait_ms: int = 0) -> Any:
        command = {"queue": queue, "worker_session_id": session, "consumer_id": consumer}
        return self.post("/v1/acquisitions", **command, sequence=sequence, wait_ms=wait_ms)

    async def assignment(self, session: str, sequence: int = 1, **poll: Any) -> Any:
        """The assignment of this poll, dispatched."""
        reply = await self.sure(lambda: self.poll(session, sequence, wait_ms=20_000, **poll))
        assert reply["disposition"] == "assigned", reply
        await self.dispatch(reply["assignment"])
        return reply["assignment"]

    async def dispatch(self, assignment: Any) -> Any:
        command = {"owner": assignment["lease"]["owner"], "sequence": 1, "intent": "dispatch"}
        return await self.sure(lambda: self.exchange("POST", "/v1/renewals", command))

    async def settle(self, assignment: Any, output: Any) -> Any:
        """The receipt of a success."""
        outcome = {"status": "success", "output": output}
        report = {"process_id": 1, "reused_process": False, "elapsed_ms": 5, "outcome": outcome}
        command = {
            "owner": assignment["lease"]["owner"],
            "operation_id": "op",
            "report": {"kind": "completed", "report": _identity(assignment) | report},
            "quiescence": "confirmed",
            "processing_trace": None,
        }
        return await self.sure(lambda: self.exchange("POST", "/v1/settlements", command))

    async def decide(self, assignment: Any, kind: str, *, revision: int = 0, **members: Any) -> Any:
        decision = {"v": 1, "activation_id": assignment["event"]["ldgtaskid"], "revision": revision, "kind": kind}
        if kind == "wait":
            decision |= {"state": None, "continuation": "next", "commands": []}
        return await self.settle(assignment, decision | members)

    async def health(self, which: str) -> tuple[int, Any]:
        return await self.exchange("GET", f"/health/{which}")

    async def ready(self) -> None:
        """Once it is."""
        await eventually(lambda: self.health("ready"), lambda reply: reply[0] == 200)


def _identity(assignment: Any) -> dict[str, Any]:
    """What a report must echo (chapter 07, Settlement)."""
    event, descriptor = assignment["event"], assignment["descriptor"]
    names = {"source": "source", "event_id": "id", "tenant_id": "ldgtenantid", "attempt_no": "ldgattemptno"}
    for name in ("namespace", "run_id", "task_id", "attempt_id", "workflow_id", "activation_id", "root_workflow_id"):
        names[name] = "ldg" + name.replace("_", "")
    names |= {name: name for name in ("traceparent", "tracestate")}
    echoed = {name: event[attribute] for name, attribute in names.items() if attribute in event}
    return echoed | {"program": descriptor["program"], "digest": descriptor["digest"]}


def _every_command(wire: Wire, session: str) -> dict[str, Awaitable[tuple[int, Any]]]:
    """An exchange for every route of the contract that reaches the database, as far as a plain command does."""
    event = {"specversion": "1.0", "id": "i", "source": "/s", "type": "t", "data": None}
    event |= {"datacontenttype": "application/json"}
    return {
        "submit task": wire.exchange("POST", "/v1/tasks", wire.submission("away")),
        "submit workflow": wire.exchange("POST", "/v1/workflows", wire.submission("away")),
        "list": wire.get("/v1/tasks"),
        **{read: wire.get(f"/v1/tasks/{read}", task_id="task_x") for read in ("inspect", "status", "result")},
        "history": wire.get("/v1/tasks/history", task_id="task_x"),
        "attempt": wire.get("/v1/attempts/inspect", task_id="task_x", attempt_id="att_x"),
        "cancel task": wire.post("/v1/tasks/cancel", task_id="task_x"),
        "open session": wire.post("/v1/worker-sessions", queue="q", concurrency=1),
        "extend session": wire.exchange("POST", "/v1/worker-sessions/extend", {"worker_session_id": session}),
        "poll": wire.poll(session, 1, consumer=7),
        "patient poll": wire.poll(session, 1, consumer=8, wait_ms=500),
        "workflow status": wire.get("/v1/workflows/status", workflow_id="wf_x"),
        "workflow result": wire.get("/v1/workflows/result", workflow_id="wf_x"),
        "cancel workflow": wire.post("/v1/workflows/cancel", workflow_id="wf_x"),
        "event": wire.post("/v1/workflows/events", workflow_id="wf_x", key="k", event=event),
    }


@pytest.fixture
def every_command() -> Any:
    """`every_command(wire, session)`: exchanges by name."""
    return _every_command


@pytest.fixture(name="eventually")
def _eventually() -> Any:
    return eventually


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the database's account may enter."""
    with tempfile.TemporaryDirectory(prefix="p3-", dir="/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Database]:
    database = Database(folder)
    yield database
    database.stop()


@pytest.fixture
def database(server: Database) -> Database:
    """The module's server, running at the start of a test whatever the one before left."""
    if not server.runs:
        server.start()
    return server


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A program store in which `hello` is published, as far as a coordinator looks."""
    descriptor = Descriptor(program=ProgramRef(id="hello", version="1"), digest="sha256:" + "a" * 64, size=4321)
    path = tmp_path / "store" / descriptor_path(descriptor.program)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_descriptor(descriptor))
    return tmp_path / "store"


@pytest.fixture
def serve(database: Database, store: Path, tmp_path: Path) -> Iterator[Callable[[], Coordinator]]:
    """Starts another coordinator on the database."""
    coordinators: list[Coordinator] = []

    def start() -> Coordinator:
        coordinators.append(Coordinator(database, store, tmp_path / f"{len(coordinators)}.log"))
        return coordinators[-1]

    yield start
    for coordinator in coordinators:
        coordinator.process.kill()
        coordinator.process.wait()


@pytest.fixture
def coordinator(serve: Callable[[], Coordinator]) -> Coordinator:
    return serve().started()


@pytest.fixture
async def to(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[Coordinator], Wire]]:
    """`to(coordinator)`: commands in a namespace of the test's own."""
    namespace = re.sub("[^a-z0-9_-]+", "-", str(request.node.name).lower())[-100:]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield lambda coordinator: Wire(session, coordinator.url, namespace)


@pytest.fixture
def wire(to: Callable[[Coordinator], Wire], coordinator: Coordinator) -> Wire:
    return to(coordinator)
