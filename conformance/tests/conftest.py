"""Fakes for the suite's own tests: targets that answer just enough, and then misbehave."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import protocol3_conformance
import protocol3_spec
from protocol3_conformance.breaker.breakings import BREAKINGS
from protocol3_conformance.breaker.proxy import Proxy
from protocol3_conformance.wire.peer import Endpoint

sys.path.insert(0, str(Path(__file__).parent))  # for the fakes

from fakes import Behaviour, obliging

TOOL = Path(__file__).parents[2] / "tools" / "run_conformance.py"


async def _serve(behave: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while line := await reader.readline():
            method, target, _ = line.decode().split()
            length = 0
            while (field := await reader.readline()) != b"\r\n":
                name, _, value = field.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            await behave(method, target, await reader.readexactly(length), writer)
            await writer.drain()
            if writer.is_closing():
                break
    writer.close()


@pytest.fixture(autouse=True)
def importable_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes in other folders find the packages that this process uses, and load no other plugin."""
    roots = [Path(str(module.__file__)).parents[1] for module in (protocol3_conformance, protocol3_spec)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, roots)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def fake() -> Iterator[Callable[[Behaviour], str]]:
    """Start a fake in a thread of its own: fake(behaviour) -> URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start(behave: Behaviour) -> str:
        server = await asyncio.start_server(lambda reader, writer: _serve(behave, reader, writer), "127.0.0.1", 0)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield lambda behave: asyncio.run_coroutine_threadsafe(start(behave), loop).result(10)
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def _end_all() -> None:
    """What a fake still holds, such as a connection that it never answers, ends before its loop does."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def obliging_target(fake: Callable[[Behaviour], str]) -> str:
    """A fake that is ready to be judged."""
    return fake(obliging)


@pytest.fixture
def answers() -> Behaviour:
    """The behaviour of a fake that is ready to be judged."""
    return obliging


@pytest.fixture(scope="session")
def coordinator() -> Iterator[str]:
    """The URL of our own coordinator, run as a process for all tests."""
    command = [sys.executable, str(TOOL), "--only-serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        url = running.stdout.readline().strip()
        assert url.startswith("http://"), f"{TOOL.name} did not start a coordinator"
        yield url
        running.stdin.close()
        running.wait(30)


@pytest.fixture
def broken(coordinator: str) -> Iterator[Callable[[str], str]]:
    """Put the breaking proxy in front of the coordinator: broken(name) -> URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start(name: str) -> str:
        server = await Proxy(Endpoint.parse(coordinator), BREAKINGS[name]).serve("127.0.0.1", 0)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield lambda name: asyncio.run_coroutine_threadsafe(start(name), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
