"""`protocol3 orchestrator`: serve the coordinator, migrate its database."""

import asyncio
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import click

from protocol3.cli.failure import CliFailure
from protocol3.cli.options import Command
from protocol3.cli.output import emit
from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.http.listener import check_address
from protocol3.coordinator.log import JsonLines
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve as run_coordinator
from protocol3.store.database import DatabaseError
from protocol3.store.database import migrate as run_migrations
from protocol3.store.opening import Unusable, opening

if TYPE_CHECKING:
    from protocol3.store.embedded import EmbeddedPostgres

logger = logging.getLogger(__name__)


def host_and_port(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """HOST:PORT as a pair; an IPv6 host stands in brackets."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise click.BadParameter(f"{value!r} must look like 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def existing_store(context: click.Context, parameter: click.Parameter, value: str) -> Path:
    if not Path(value).is_dir():
        raise click.BadParameter(f"{value!r} is no folder: `protocol3 program publish --store {value}` makes it")
    return Path(value)


def database_options(command: Command) -> Command:
    """Which database: one that runs somewhere, or an embedded one."""
    for option in (
        click.option("--ephemeral", is_flag=True, help="Embedded database in a temporary folder, gone afterwards."),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            help="Folder of the embedded database.  [default: ~/.local/state/protocol3/pg18, for root "
            "/var/lib/protocol3/pg18]",
        ),
        click.option(
            "--database-url",
            envvar="PROTOCOL3_DATABASE_URL",
            help="A PostgreSQL (15 or newer) that runs already; without it an embedded one is started and stopped.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def group() -> None:
    """The coordinator: serve it, migrate its database."""


@group.command()
@database_options
def migrate(database_url: str | None, data_dir: Path | None, ephemeral: bool) -> None:
    """Bring the database's schema up to date; prints the migrations that ran."""
    log_to_stderr("info")
    with database(database_url, data_dir, ephemeral) as (url, _):
        emit({"applied": [*_migrate(url)]})


@group.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    callback=host_and_port,
    default="127.0.0.1:8080",
    show_default=True,
    help="Address to serve; port 0 takes a free one.",
)
@database_options
@click.option(
    "--store",
    envvar="PROTOCOL3_STORE",
    required=True,
    metavar="DIRECTORY",
    callback=existing_store,
    help="Folder of published programs.",
)
@click.option("--tenant", help="With --namespace: the only scope that is served.")
@click.option("--namespace", help="With --tenant: the only scope that is served.")
@click.option(
    "--metrics-listen",
    metavar="HOST:PORT",
    callback=host_and_port,
    help="Address of /metrics for Prometheus, never that of --listen; port 0 takes a free one.  [default: none]",
)
@click.option("--test-controls", is_flag=True, help="Virtual time and faults over HTTP. For tests only.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info")
def serve(
    listen: tuple[str, int],
    database_url: str | None,
    data_dir: Path | None,
    ephemeral: bool,
    store: Path,
    tenant: str | None,
    namespace: str | None,
    metrics_listen: tuple[str, int] | None,
    test_controls: bool,
    log_level: str,
) -> None:
    """Serve the protocol until SIGINT or SIGTERM. Prints {"url": ...} once it takes requests, with
    "metrics_url" beside it where metrics are asked for.

    The first signal lets admitted requests finish, a second one ends at once. A database of your own is migrated with
    `protocol3 orchestrator migrate`; the embedded one is migrated here.
    """
    log_to_stderr(log_level)
    scope = _scope(tenant, namespace)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the loop has handlers: start-up can be stopped
    _check_listen("--listen", *listen)
    if metrics_listen is not None:
        _check_listen("--metrics-listen", *metrics_listen)
    with database(database_url, data_dir, ephemeral) as (url, embedded):
        if embedded is not None:
            _migrate(url)
        options = ServeOptions(
            listen_host=listen[0],
            listen_port=listen[1],
            database_url=url,
            store=store,
            fixed_scope=scope,
            metrics_listen=metrics_listen,
            test_controls=test_controls,
        )
        with _service_failures(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_until_told(options, embedded))


async def _until_told(options: ServeOptions, embedded: "EmbeddedPostgres | None") -> None:
    """Run the coordinator; each signal cancels it once, the end of the embedded database does as well."""
    serving = asyncio.ensure_future(run_coordinator(options, ready=lambda bound: emit(bound.to_json())))
    loop = asyncio.get_running_loop()
    lost = asyncio.Event()

    def told(name: str) -> None:
        logger.info("%s: stopping; a second signal ends at once", name)
        serving.cancel()

    def database_lost() -> None:
        lost.set()
        serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # loops of Windows
            loop.add_signal_handler(number, told, number.name)
    if embedded is not None:
        _watch(embedded, loop, database_lost)
    try:
        await serving
    except asyncio.CancelledError:
        if embedded is not None and lost.is_set():
            last = embedded.log.read_text(errors="replace").strip().rpartition("\n")[2]
            message = "the embedded database ended unexpectedly"
            raise CliFailure(message, code="database", advice=f"the last line of its log is: {last}") from None


def _watch(embedded: "EmbeddedPostgres", loop: asyncio.AbstractEventLoop, lost: Any) -> None:
    def wait() -> None:
        embedded.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: this was the ordinary stop
            loop.call_soon_threadsafe(lost)

    threading.Thread(target=wait, name="embedded-database", daemon=True).start()


@contextlib.contextmanager
def database(
    database_url: str | None, data_dir: Path | None, ephemeral: bool
) -> Iterator[tuple[str, "EmbeddedPostgres | None"]]:
    """The URL of the database to use, and the embedded one if that is it. Raises CliFailure or UsageError."""
    if database_url is not None:
        if data_dir is not None or ephemeral:
            raise click.UsageError("--database-url excludes --data-dir and --ephemeral, which are for the embedded one")
        yield database_url, None
        return
    if data_dir is not None and ephemeral:
        raise click.UsageError("--ephemeral uses a temporary folder: leave out --data-dir")
    if sys.platform == "win32":
        raise click.UsageError("the embedded database runs on Linux and macOS: give --database-url")
    from protocol3.store.embedded import EmbeddedPostgres, EmbeddedPostgresError

    try:
        embedded = EmbeddedPostgres(data_dir, ephemeral=ephemeral).start()
    except EmbeddedPostgresError as failure:
        raise CliFailure(str(failure), code="database") from failure
    try:
        yield embedded.dsn, embedded
    finally:
        embedded.stop()


def _check_listen(option: str, host: str, port: int) -> None:
    try:
        check_address(host, port)
    except (OSError, UnicodeError) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise CliFailure(
            f"cannot listen on {host}:{port}: {reason}",
            code="start",
            advice=f"stop what listens there, or choose another address with {option} (port 0 takes a free one)",
        ) from failure


def _migrate(url: str) -> list[str]:
    with _service_failures(), opening():
        return asyncio.run(run_migrations(url))


@contextlib.contextmanager
def _service_failures() -> Iterator[None]:
    """Expected failures of a service, as one sentence each."""
    try:
        yield
    except Unusable as failure:
        raise CliFailure(str(failure), code="database", advice=failure.advice) from failure
    except DatabaseError as failure:
        raise CliFailure(str(failure), code="database") from failure
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as failure:
        message = f"the database refused: {failure}"
        raise CliFailure(message, code="database", advice=_advice(failure)) from failure
    except (OSError, ValueError) as failure:
        raise CliFailure(str(failure), code="start", advice="see --listen and --database-url") from failure


def _advice(refused: Exception) -> str:
    match refused:
        case asyncpg.InsufficientPrivilegeError():
            return "name a role in --database-url that owns the schema protocol3, or may create it"
        case asyncpg.ReadOnlySQLTransactionError():
            return "give a server that takes writes, not a standby, as --database-url"
        case asyncpg.SyntaxOrAccessError():  # tables or columns that are not ours
            return "its schema protocol3 was made by something else: use another database"
        case _:
            return "check user, password and name of the database in --database-url"


def _scope(tenant: str | None, namespace: str | None) -> Scope | None:
    if tenant is None and namespace is None:
        return None
    if tenant is None or namespace is None:
        raise click.UsageError("--tenant and --namespace belong together: give both, or none to serve every scope")
    try:
        return Scope.from_json({"tenant_id": tenant, "namespace": namespace}, "scope")
    except Refusal as refusal:
        raise click.UsageError(str(refusal.message)) from refusal


def log_to_stderr(level: str) -> None:
    """Every line a JSON object (`coordinator.log`)."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
