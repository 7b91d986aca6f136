"""A worker in this process, with real program processes, on the scripted coordinator."""

import asyncio
import json
import platform
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.limits import CACHE_BYTES
from protocol3.contract.models.common import Scope
from protocol3.programs.cache import PackageCache
from protocol3.programs.publish import Publication, publish_directory
from protocol3.programs.stores import open_store
from protocol3.telemetry.tracing import UNTRACED, Tracing
from protocol3.worker.connect import Delivery, Worker
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.sessions import open_session
from protocol3.worker.settings import HELPER_BOOTSTRAP, Pacing, WorkerSettings
from protocol3.worker.transport import Coordinator

PATIENCE_S = 20.0
SCOPE = Scope(tenant_id="north", namespace="reports")
QUICK = Pacing(retry_delay_ms=5, idle_delay_ms=5, request_timeout_ms=5_000)


@dataclass
class Bench:
    """One worker on the scripted coordinator."""

    coordinator: Any
    settings: WorkerSettings
    output: BytesIO
    diagnostics: Diagnostics
    worker: Worker
    run: "asyncio.Task[Delivery]"

    async def until(self, condition: Callable[[], Any]) -> None:
        """Look again after every turn of the loop until the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)

    async def flushed(self) -> None:
        """Everything that was written so far is in ``output``."""
        await asyncio.to_thread(self.diagnostics.close, 5.0)

    async def stop(self) -> Delivery:
        self.worker.stop("the test is over")
        return await self.end()

    async def end(self) -> Delivery:
        return await asyncio.wait_for(asyncio.shield(self.run), PATIENCE_S)


Start = Callable[..., Awaitable[Bench]]


@pytest.fixture
def quick() -> Callable[..., Pacing]:
    """``quick(renew_interval_ms=...)``: the pacing of these tests with changes."""
    return lambda **changes: replace(QUICK, **changes)


@pytest.fixture
async def start(coordinator: Any, tmp_path: Path) -> AsyncIterator[Start]:
    """``await start(pacing=..., **settings)``: a worker that takes work."""
    running: list[tuple[Bench, Coordinator, PackageCache, Diagnostics]] = []

    async def begin(
        *, pacing: Pacing = QUICK, cache_quota: int = CACHE_BYTES, tracing: Tracing = UNTRACED, **changes: Any
    ) -> Bench:
        (tmp_path / "store").mkdir(exist_ok=True)
        settings = WorkerSettings(
            **{
                "server": coordinator.url, "scope": SCOPE, "queue": "main", "store": str(tmp_path / "store"),
                "cache": tmp_path / f"cache-{len(running)}", "python": sys.executable, "bootstrap": HELPER_BOOTSTRAP,
                "concurrency": 1, "acquire_wait_ms": 20_000, "pacing": pacing, **changes,
            }
        )  # fmt: skip
        output = BytesIO()
        diagnostics = Diagnostics(output)
        timeout_ms = settings.pacing.request_timeout_ms
        client = Coordinator(settings.server, request_timeout_ms=timeout_ms, notice=diagnostics.say)
        cache = PackageCache(settings.cache, quota_bytes=cache_quota)
        worker = Worker(
            settings, coordinator=client, cache=cache, store=open_store(settings.store),
            session=await open_session(client, settings), diagnostics=diagnostics,
            tracing=tracing,
        )  # fmt: skip
        bench = Bench(coordinator, settings, output, diagnostics, worker, asyncio.create_task(worker.run()))
        running.append((bench, client, cache, diagnostics))
        return bench

    yield begin
    for bench, client, cache, diagnostics in running:
        if not bench.run.done():
            bench.worker.stop("the test is over")
            done, _ = await asyncio.wait([bench.run], timeout=1)
            if not done:
                bench.worker.abandon()
                bench.run.cancel()
                await asyncio.wait([bench.run])
        await client.close()
        cache.close()
        diagnostics.close()


HANDLER = """\
import os, sys, time
from ledgence.worker import get_logger

def handle(event):
    data = event["data"]
    match data["do"]:
        case "echo":
            return data.get("value")
        case "raise":
            raise ValueError(data["message"])
        case "exit":
            sys.exit(7)
        case "kill":
            os.kill(os.getpid(), 9)
        case "sleep":
            open(data["mark"], "w").close()
            time.sleep(600)
        case "spawn":
            import subprocess
            child = subprocess.Popen(["sleep", "600"])
            open(data["mark"], "w").write(str(child.pid))
            time.sleep(600)
        case "pid":
            return os.getpid()
        case "cwd":
            return os.getcwd()
        case "environment":
            return {"argv": sys.orig_argv, "path0": sys.path[0], "pgid": os.getpgrp(), "pid": os.getpid()}
        case "talk":
            os.write(2, b"x" * data["stderr"])
            for number in range(data["logs"]):
                get_logger("bench").info("line %d", number)
            return "done"
        case "wide":
            return "w" * data["size"]
"""

Publish = Callable[..., Publication]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """``publish(source_text, protocol=3)``: a package of one module in the test's store."""
    count = 0

    def make(source: str = HANDLER, *, protocol: int = 3, **manifest: Any) -> Publication:
        nonlocal count
        count += 1
        root = tmp_path / f"package-{count}"
        root.mkdir()
        document = {
            "schema_version": 1,
            "program": {"id": f"bench-{count}", "version": "1"},
            "runtime": {
                "kind": "python",
                "python": ".".join(platform.python_version_tuple()[:2]),
                "protocol": protocol,
            },
            "handler": "program:handle",
            "platform": {
                "os": {"Darwin": "macos"}.get(platform.system(), "linux"),
                "arch": {"arm64": "aarch64"}.get(platform.machine(), platform.machine()),
            },
            **manifest,
        }
        (root / "ledgence-program.json").write_text(json.dumps(document))
        (root / "program.py").write_text(source)
        return publish_directory(root, tmp_path / "store")

    return make


BOOTSTRAP = '''\
"""Runs the package's program.py as the whole child: it writes and reads frames as it likes."""
import json, os, sys, time

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
V = int(arguments.get("--protocol-version", "1"))
LIMIT = int(arguments["--max-output-bytes"])
out = os.fdopen(os.dup(1), "wb", 0)

def raw(data):
    view = memoryview(data)
    while view:
        view = view[out.write(view):]

def send(**frame):
    raw(json.dumps({"v": V, **frame}).encode() + b"\\n")

def read():
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)

def ready(**changes):
    send(**{"type": "ready", "pid": os.getpid(), "python_version": arguments["--python-version"], **changes})

def result(invoke, **frame):
    send(**{"type": "result", "event_id": invoke["event_id"], "attempt_id": invoke["attempt_id"], **frame})

def request(invoke, **frame):
    send(**{"type": "runtime_request", "event_id": invoke["event_id"], "attempt_id": invoke["attempt_id"],
            "id": 1, "operation": "local_step.commit",
            "payload": {"key": "k", "callable": "c", "input": None, "output": None}, **frame})

def serve(handle):
    ready()
    while True:
        frame = read()
        if frame["type"] == "shutdown":
            send(type="closing")
            sys.stdin.read()
            sys.exit(0)
        handle(frame)

def fine(frame):
    result(frame, status="success", output=os.getpid())

with open(os.path.join(arguments["--package-root"], "program.py")) as source:
    exec(compile(source.read(), "program.py", "exec"))
'''


@pytest.fixture
def scripted(start: Start, tmp_path: Path) -> Start:
    """Like ``start``, but the children run the package's program.py as their whole script."""
    bootstrap = tmp_path / "bootstrap.py"
    bootstrap.write_text(BOOTSTRAP)

    async def begin(**changes: Any) -> Any:
        return await start(bootstrap=bootstrap, **changes)

    return begin
