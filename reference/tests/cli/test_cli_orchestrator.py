"""`protocol3 orchestrator`: options, databases, signals and failures, with a coordinator of the test's choice."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner, Result

from protocol3.cli.root import root
from protocol3.contract.models.common import Scope
from protocol3.coordinator.http import listener
from protocol3.coordinator.options import ServeOptions
from protocol3.store.database import DatabaseError, is_current
from protocol3.store.embedded import EmbeddedPostgres

Coordinator = Callable[[ServeOptions], Any]
COMMANDS = "protocol3.cli.orchestrator"
EXTERNAL = ["--database-url", "postgresql://elsewhere/db", "--store", "/"]


class Served:
    """Runs `orchestrator serve` with `coordinator` in place of ours; keeps the options it got."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.options: ServeOptions | None = None

    def __call__(self, coordinator: Coordinator, *words: str) -> Result:
        async def serve(options: ServeOptions, *, ready: Callable[[Any], None]) -> None:
            self.options = options
            ready(SimpleNamespace(to_json=lambda: {"url": "http://127.0.0.1:4321"}))
            await coordinator(options)

        self._module.serve = serve  # type: ignore[attr-defined]
        sys.modules.pop(COMMANDS, None)
        return CliRunner().invoke(root, ["orchestrator", "serve", *words])


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    module = ModuleType("protocol3.coordinator.server")
    module.serve = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(listener, "check_address", lambda host, port: None)  # the default port may be taken here
    before = sys.modules.pop(COMMANDS, None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Served(module)
    sys.modules.pop(COMMANDS, None)
    if before is not None:
        sys.modules[COMMANDS] = before
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the database's account may enter."""
    with tempfile.TemporaryDirectory(prefix="p3-", dir="/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()


async def until_cancelled(_: ServeOptions) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()


def test_options_reach_the_coordinator_and_a_signal_ends_it(served):
    done = served(
        until_cancelled, *EXTERNAL, "--listen", "[::1]:0", "--tenant", "a", "--namespace", "b", "--test-controls",
        "--metrics-listen", "0.0.0.0:9464",
    )  # fmt: skip
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"url": "http://127.0.0.1:4321"}
    assert served.options == ServeOptions(
        listen_host="::1",
        listen_port=0,
        database_url="postgresql://elsewhere/db",
        store=Path("/"),
        fixed_scope=Scope(tenant_id="a", namespace="b"),
        metrics_listen=("0.0.0.0", 9464),
        test_controls=True,
    )


def test_by_default_every_scope_is_served_without_test_controls(served):
    served(until_cancelled, *EXTERNAL)
    assert served.options is not None
    assert served.options.listen_host == "127.0.0.1"
    assert served.options.listen_port == 8080
    assert served.options.fixed_scope is None
    assert served.options.metrics_listen is None
    assert served.options.test_controls is False


def test_a_second_signal_ends_the_drain(served):
    """The first cancels once, so that admitted exchanges may finish (HTTP-083)."""
    seen = []

    async def drains(_: ServeOptions) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("draining")
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    assert served(drains, *EXTERNAL).exit_code == 0
    assert seen == ["draining"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--tenant", "a"], "belong together"),
        (["--namespace", "a"], "belong together"),
        (["--tenant", "", "--namespace", "b"], "scope.tenant_id"),
        (["--store", "/absent"], "program publish --store /absent"),
        (["--listen", "8080"], "127.0.0.1:8080"),
        (["--listen", "h:70000"], "127.0.0.1:8080"),
        (["--metrics-listen", "9464"], "127.0.0.1:8080"),
        (["--ephemeral"], "--database-url excludes"),
        (["--data-dir", "d"], "--database-url excludes"),
    ],
)
def test_bad_usage_starts_nothing(served, words, complaint):
    refused = served(until_cancelled, *EXTERNAL, *words)
    assert refused.exit_code == 2
    assert complaint in refused.stderr
    assert served.options is None


def test_ephemeral_and_a_data_folder_exclude_each_other(served, folder):
    refused = served(until_cancelled, "--store", "/", "--ephemeral", "--data-dir", str(folder / "d"))
    assert refused.exit_code == 2
    assert list(folder.iterdir()) == []


def test_the_store_must_be_given(served):
    refused = served(until_cancelled, "--database-url", "x")
    assert refused.exit_code == 2
    assert "--store" in refused.stderr


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(98, "address in use"), "start"),
        (DatabaseError("run migrate first"), "database"),
        (asyncpg.InvalidPasswordError("no"), "database"),
        (asyncpg.InternalClientError("gone"), "database"),
    ],
)
def test_a_failed_start_is_one_sentence(served, failure, code):
    async def fails(_: ServeOptions) -> None:
        raise failure

    failed = served(fails, *EXTERNAL)
    assert failed.exit_code == 1
    assert json.loads(failed.stderr.splitlines()[-1])["code"] == code
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (asyncpg.InvalidPasswordError("no"), "check user, password and name"),
        (asyncpg.InvalidCatalogNameError("no"), "check user, password and name"),
        (asyncpg.InsufficientPrivilegeError("no"), "owns the schema protocol3"),
        (asyncpg.ReadOnlySQLTransactionError("no"), "takes writes"),
        (asyncpg.UndefinedColumnError("no"), "use another database"),
        (asyncpg.DuplicateTableError("no"), "use another database"),
    ],
)
def test_what_a_database_refuses_comes_with_advice_for_it(served, failure, advice):
    """A password that is right is not what somebody without rights shall look at."""

    async def fails(_: ServeOptions) -> None:
        raise failure

    assert advice in json.loads(served(fails, *EXTERNAL).stderr.splitlines()[-1])["next"]


def test_the_embedded_database_is_migrated_watched_and_removed(served):
    """Its sudden end is noticed and told; nothing of it stays behind."""
    seen: dict[str, Any] = {}

    async def loses_it(options: ServeOptions) -> None:
        connection = await asyncpg.connect(options.database_url)
        seen["current"] = await is_current(connection)
        socket = Path(await connection.fetchval("show unix_socket_directories"))
        seen["base"] = socket.parent
        connection.terminate()
        os.kill(int((socket.parent / "data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        await asyncio.Event().wait()

    failed = served(loses_it, "--ephemeral", "--store", "/")
    assert failed.exit_code == 1
    assert "ended unexpectedly" in json.loads(failed.stderr.splitlines()[-1])["message"]
    assert seen["current"] is True
    assert not seen["base"].exists()


def test_migrate_says_what_it_did(served, folder):
    first = CliRunner().invoke(root, ["orchestrator", "migrate", "--data-dir", str(folder / "base")])
    assert first.exit_code == 0
    assert json.loads(first.stdout)["applied"]
    again = CliRunner().invoke(root, ["orchestrator", "migrate", "--data-dir", str(folder / "base")])
    assert json.loads(again.stdout) == {"applied": []}


DEAD = "postgresql://user:pass%2Fword@127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("url", "message", "advice"),
    [
        (DEAD, "cannot be reached: Connection refused", "start PostgreSQL"),
        ("postgresql://user:pass%2Fword@[::1]:1/x", "cannot be reached", "start PostgreSQL"),
        ("postgresql://user:pass/word@h:5432/x", "is no usable address", "%"),
        ("postgresql://user:word@h:port/x", "is no usable address", "postgresql://USER"),
        ("word", "is no usable address", "postgresql://USER"),
    ],
)
@pytest.mark.parametrize("command", [("migrate",), ("serve", "--store", "/", "--listen", "127.0.0.1:0")])
def test_a_database_that_does_not_answer(command, url, message, advice):
    """What to do is said, and no part of the password."""
    failed = CliRunner().invoke(root, ["orchestrator", *command, "--database-url", url])
    shown = json.loads(failed.stderr.splitlines()[-1])
    assert (failed.exit_code, shown["code"]) == (1, "database")
    assert message in shown["message"]
    assert advice in shown["next"]
    assert "--database-url" in shown["next"]
    assert "word" not in failed.stderr.replace("PASSWORD", "")
    assert "Traceback" not in failed.stderr


def test_a_schema_that_is_not_current_names_the_command(folder):
    """With the option that it needs."""
    with EmbeddedPostgres(folder / "base") as embedded:
        url = embedded.dsn
        words = ["orchestrator", "serve", "--store", "/", "--listen", "127.0.0.1:0", "--database-url", url]
        failed = CliRunner().invoke(root, words)
        shown = json.loads(failed.stderr.splitlines()[-1])
        assert (failed.exit_code, shown["code"]) == (1, "database")
        assert "not current" in shown["message"]
        assert "protocol3 orchestrator migrate --database-url" in shown["next"]


def test_a_busy_port_is_found_before_the_database_starts(folder):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        words = ["orchestrator", "serve", "--store", "/", "--listen", address, "--data-dir", str(folder / "base")]
        failed = CliRunner().invoke(root, words)
    shown = json.loads(failed.stderr.splitlines()[-1])
    assert (failed.exit_code, shown["code"]) == (1, "start")
    assert shown["message"] == f"cannot listen on {address}: Address already in use"
    assert "--listen" in shown["next"]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_here_is_found_before_the_database_starts(host, folder):
    words = ["orchestrator", "serve", "--store", "/", "--listen", f"{host}:0", "--data-dir", str(folder / "base")]
    failed = CliRunner().invoke(root, words)
    shown = json.loads(failed.stderr.splitlines()[-1])
    assert (failed.exit_code, shown["code"]) == (1, "start")
    assert shown["message"].startswith(f"cannot listen on {host}:0: ")
    assert list(folder.iterdir()) == []
