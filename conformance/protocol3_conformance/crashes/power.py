"""The commands that take the target down and bring it up again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from protocol3_conformance.wire import http
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.http import Connection
from protocol3_conformance.wire.peer import Endpoint

LOOK_SECONDS = 0.05
PROBE_SECONDS = 2.0
READY = "/health/ready"


class PowerFailure(Exception):
    """A command did not do what it is for; the message says which and what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Words of commands, run without a shell. Without `kill` the target must die of itself, or `restart` does both."""

    kill: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    @classmethod
    def of(cls, commands: Mapping[str, str], *, dies_at_command: bool) -> Power | None:
        """None where the commands do not suffice. `dies_at_command`: fault rules can kill it, so `start` is enough.

        Raises ValueError for words that no shell would understand either.
        """
        words = {name: tuple(shlex.split(commands.get(name, ""))) for name in ("kill", "start", "restart")}
        power = cls(**words)
        return power if power.restart or (power.start and (power.kill or dies_at_command)) else None

    @property
    def by_itself(self) -> bool:
        """Whether the target is to be killed by a fault rule, as no command does it."""
        return not self.kill and bool(self.start)

    async def down(self, endpoint: Endpoint, seconds: float) -> None:
        """Kill it (unless it has died, or `restart` will) and see that it is gone. Raises PowerFailure."""
        if self.kill:
            await _run("kill", self.kill, seconds)
        if self.kill or self.by_itself:
            what = f"the kill command ({shlex.join(self.kill)})" if self.kill else "a fault rule with act crash"
            deadline = time.monotonic() + seconds
            while await ready(endpoint):
                if time.monotonic() > deadline:
                    raise PowerFailure(f"{seconds:g} s after {what} the target still answers; it must end at once")
                await asyncio.sleep(LOOK_SECONDS)

    async def up(self, endpoint: Endpoint, seconds: float) -> None:
        """Start it and wait until it is ready. The command may end, or stay and be the target. Raises PowerFailure."""
        name, words = ("start", self.start) if self.start else ("restart", self.restart)
        if name == "restart":
            await _run(name, words, seconds)
        deadline = time.monotonic() + seconds
        with _said() as said:
            starting = _begin(name, words, said) if name == "start" else None
            while not await ready(endpoint):
                code = starting.poll() if starting else None
                if code:
                    raise PowerFailure(_failed(name, words, f"ended with exit code {code}", said))
                if time.monotonic() > deadline:
                    raise PowerFailure(_failed(name, words, f"left {READY} without a 200 for {seconds:g} s", said))
                await asyncio.sleep(LOOK_SECONDS)


async def ready(endpoint: Endpoint) -> bool:
    """Whether the target says that it is (HTTP-091)."""
    connection = None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            connection = await Connection.open(endpoint.host, endpoint.port)
            fields = [("Host", endpoint.authority), ("Accept", "application/json")]
            await connection.send(http.request_bytes("GET", endpoint.prefix + READY, fields))
            return (await connection.reply()).status == 200
    except (TransportFault, TimeoutError):
        return False
    finally:
        if connection is not None:
            connection.abort()


async def _run(name: str, words: tuple[str, ...], seconds: float) -> None:
    """Run a command to its end; one that has none is ended, with all that it started. Raises PowerFailure."""
    with _said() as said:
        running = _begin(name, words, said)
        deadline = time.monotonic() + seconds
        try:
            while running.poll() is None:
                if time.monotonic() > deadline:
                    raise PowerFailure(_failed(name, words, f"did not end within {seconds:g} s", said))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        if running.returncode:
            raise PowerFailure(_failed(name, words, f"ended with exit code {running.returncode}", said))


def _said() -> contextlib.AbstractContextManager[IO[bytes]]:
    return tempfile.TemporaryFile()


def _begin(name: str, words: tuple[str, ...], said: IO[bytes]) -> subprocess.Popen[bytes]:
    """No asyncio subprocess: that one would be killed with the loop, and what `start` leaves is the target itself."""
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
    except OSError as error:
        raise PowerFailure(f"the {name} command ({shlex.join(words)}) cannot be run: {error.strerror}") from None


def _failed(name: str, words: tuple[str, ...], what: str, said: IO[bytes]) -> str:
    said.seek(0)
    tail = said.read()[-400:].decode("utf-8", "replace").strip()
    return f"the {name} command ({shlex.join(words)}) {what}" + (f"; it said: {tail}" if tail else "")
