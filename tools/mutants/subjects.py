"""Starts what is judged: a coordinator, a worker or a program process out of a copy, by the usual commands."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from mutants.entries import ROOT, Mutant
from protocol3.store.embedded import EmbeddedPostgres
from protocol3_conformance.commands import RuntimeCommand, WorkerCommand
from protocol3_conformance.crashes.power import Power
from protocol3_conformance.options import DEFAULT_PROGRAM
from protocol3_conformance.target import NOWHERE, PROFILES, TESTING, Patience, Target
from protocol3_conformance.wire.peer import Endpoint

SERVED = [sys.executable, str(ROOT / "tools" / "served.py")]
ROUND_ROBIN = [sys.executable, str(ROOT / "tools" / "round_robin.py")]
TEMPLATE = "mutant_template"
SCHEMA_FILES = ("store/",)
"""Edits below may concern the schema: such a mutant migrates its database itself."""
BOOTSTRAP = "protocol3/runtime/ledgence/worker/bootstrap.py"
PLACES = ("server", "tenant", "namespace", "queue", "store", "cache", "concurrency", "acquire_wait_ms")
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""The database server itself is never killed here, so nothing is lost by this but time."""


class Stillborn(Exception):
    """It did not start; the message has what it said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all mutants have in common: a database server with a migrated template, a store of the fixture programs."""

    dsn: str
    store: str


def environment(copy: Path | None = None) -> dict[str, str]:
    """A copy goes before everything else that is installed or on the path."""
    roots = [ROOT / "reference", ROOT / "conformance", ROOT / "spec"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(one) for one in ([copy] if copy else []) + roots)}


def _with_copy(copy: Path) -> list[str]:
    return ["env", f"PYTHONPATH={environment(copy)['PYTHONPATH']}"]


def _protocol3(*words: str) -> list[str]:
    return [sys.executable, "-m", "protocol3.cli", *words]


def _database(dsn: str, name: str) -> str:
    return dsn.replace("/protocol3?", f"/{name}?", 1)


@contextmanager
def shared() -> Iterator[Shared]:
    """The server follows the thread that started it, so this is for the main one."""
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        EmbeddedPostgres(ephemeral=True, settings=SETTINGS) as server,
    ):
        asyncio.run(_execute(server.dsn, f"CREATE DATABASE {TEMPLATE}"))
        for words in (
            _protocol3("orchestrator", "migrate", "--database-url", _database(server.dsn, TEMPLATE)),
            _protocol3("fixtures", "export", folder),
        ):
            subprocess.run(words, check=True, env=environment(), capture_output=True)
        yield Shared(dsn=server.dsn, store=f"{folder}/store")


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def target(mutant: Mutant, copy: Path, common: Shared | None) -> Iterator[Target]:
    """What the suite judges. `common` is for a coordinator; Stillborn is raised for one that does not start."""
    if mutant.role == "coordinator":
        assert common is not None
        with _served(mutant, copy, common) as (url, power):
            # Several processes are judged by what is free to happen in any of them.
            yield _target(endpoint=Endpoint.parse(url), testing=mutant.processes == 1, power=power)
    elif mutant.role == "worker":
        flags = [word for place in PLACES for word in (f"--{place.replace('_', '-')}", f"{{{place}}}")]
        words = [*_with_copy(copy), *_protocol3("worker", "connect"), *flags]
        yield _target(worker=WorkerCommand.parse(" ".join(words)))
    else:
        words = [sys.executable, "-I", "-S", "-B", str(copy / BOOTSTRAP)]
        yield _target(runtime=RuntimeCommand.parse(shlex.join(words)))


def _target(
    *,
    endpoint: Endpoint = NOWHERE,
    testing: bool = True,
    power: Power | None = None,
    worker: WorkerCommand | None = None,
    runtime: RuntimeCommand | None = None,
) -> Target:
    program, _, version = DEFAULT_PROGRAM.partition("@")
    return Target(
        endpoint=endpoint,
        profiles=frozenset((*PROFILES, *(TESTING if testing else ()))),
        scope=None,
        program=(program, version),
        patience=Patience(),
        seed=1,
        with_expiry=testing,
        concurrency=24 if endpoint is not NOWHERE else 6,
        power=power,
        worker=worker,
        runtime=runtime,
    )


@contextmanager
def _served(mutant: Mutant, copy: Path, common: Shared) -> Iterator[tuple[str, Power | None]]:
    """The URL of the coordinator on a database of its own, and what kills and starts it, if it is one process."""
    name = f"mutant_{uuid.uuid4().hex}"
    own = any(edit.file.startswith(SCHEMA_FILES) for edit in mutant.edits)
    asyncio.run(_execute(common.dsn, f"CREATE DATABASE {name}" + ("" if own else f" TEMPLATE {TEMPLATE}")))
    database = ["--database-url", _database(common.dsn, name)]
    try:
        if own:
            words = _protocol3("orchestrator", "migrate", *database)
            done = subprocess.run(words, env=environment(copy), capture_output=True, text=True, check=False)
            if done.returncode:
                raise Stillborn(_last(done.stderr))
        serve = [*database, "--store", common.store, "--test-controls", "--log-level", "warning"]
        with ExitStack() as stack:
            started = [stack.enter_context(_started(copy, number, serve)) for number in range(mutant.processes)]
            if len(started) == 1:
                yield started[0]
            else:
                yield stack.enter_context(_in_turn([url for url, _ in started])), None
    finally:
        asyncio.run(_execute(common.dsn, f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def _started(copy: Path, number: int, serve: list[str]) -> Iterator[tuple[str, Power]]:
    """One process of the coordinator, at an address that it has again after its death."""
    folder = copy / f"process-{number}"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = _protocol3("orchestrator", "serve", *serve, "--listen", address)
    start = [*SERVED, "start", str(folder), *_with_copy(copy), *words]
    kill = [*SERVED, "kill", str(folder)]
    try:
        done = subprocess.run(start, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Stillborn(_last(done.stderr))
        yield f"http://{address}", Power(start=tuple(start), kill=tuple(kill))
    finally:
        subprocess.run(kill, capture_output=True, check=False)  # it may be dead


@contextmanager
def _in_turn(urls: list[str]) -> Iterator[str]:
    """One address for several processes, each connection for the next one."""
    with subprocess.Popen(
        [*ROUND_ROBIN, *urls], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]
