"""`protocol3 worker`: connect a worker to a coordinator."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from protocol3.cli.failure import CliFailure, Rejected
from protocol3.cli.options import scope
from protocol3.cli.output import emit
from protocol3.contract import limits
from protocol3.contract.models.common import Scope
from protocol3.programs.cache import PackageCache
from protocol3.programs.errors import ProgramError
from protocol3.worker.connect import Delivery, run_worker
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.sessions import CannotOpen
from protocol3.worker.settings import HELPER_BOOTSTRAP, InvalidSetting, WorkerSettings


@click.group()
def group() -> None:
    """A worker: connect it to a coordinator."""


@group.command()
@click.option(
    "--server",
    metavar="URL",
    envvar="PROTOCOL3_SERVER",
    default="http://127.0.0.1:8080",
    show_default=True,
    help="Address of the coordinator.",
)
@scope(required=True)
@click.option("--queue", required=True, help="Queue to take tasks from.")
@click.option(
    "--store",
    envvar="PROTOCOL3_STORE",
    required=True,
    metavar="DIR|URL",
    help="Published programs, as a folder or URL.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Folder for unpacked programs, this worker's alone.  [default: a free one below ~/.cache/protocol3]",
)
@click.option("--python", default=sys.executable, show_default="this one", help="Interpreter that runs the programs.")
@click.option(
    "--runner",
    type=click.Path(path_type=Path),
    default=HELPER_BOOTSTRAP,
    show_default="the one that comes with protocol3",
    help="Bootstrap file of the program helper, .../ledgence/worker/bootstrap.py.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, limits.WORKER_MAX_CONCURRENCY),
    default=limits.DEFAULT_CONCURRENCY,
    show_default=True,
    help="Tasks at a time, and program processes at most.",
)
@click.option(
    "--acquire-wait-ms",
    type=click.IntRange(0, limits.MAX_WAIT_MS),
    default=limits.MAX_WAIT_MS,
    show_default=True,
    help="How long one request for work may wait at the coordinator.",
)
def connect(cache: Path | None, tenant: str, namespace: str, runner: Path, **options: Any) -> None:
    """Run tasks until SIGINT or SIGTERM. Prints {"delivery": ...} at the end.

    The first signal cancels running work and reports it, a second one exits at once. Exit code 1 after a fatal answer
    of the coordinator.
    """
    diagnostics = Diagnostics()
    try:
        with _failures():
            settings = WorkerSettings(
                scope=Scope(tenant_id=tenant, namespace=namespace),
                cache=cache or free_cache(),
                bootstrap=runner,
                **options,
            )
            with asyncio.Runner(loop_factory=_loop_factory()) as loop:
                delivery = loop.run(run_worker(settings, diagnostics=diagnostics, on_end=_print))
        if delivery.failure is not None:
            raise CliFailure(delivery.failure, code="fatal", advice="the coordinator recovers what was not settled")
    finally:
        diagnostics.close()


def free_cache() -> Path:
    """The first cache below the user's cache folder that no running worker has; it stays for the next start."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "protocol3"
    for number in range(1, limits.WORKER_MAX_CONCURRENCY + 1):
        root = base / f"worker-{number}"
        try:
            PackageCache(root).close()
        except ProgramError as error:
            if error.kind != "unavailable":
                raise
        else:
            return root
    raise ProgramError("unavailable", f"every cache below {base} is in use; name one with --cache")


def _print(delivery: Delivery) -> None:
    emit(delivery.to_json())


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except InvalidSetting as failure:
        raise Rejected(str(failure), code="invalid_input") from None
    except CannotOpen as failure:
        raise CliFailure(str(failure), code="session") from None
    except ProgramError as failure:
        refused = failure.kind == "invalid_input"
        raise (Rejected if refused else CliFailure)(
            failure.message, code=failure.kind, advice="see --store, --cache"
        ) from None


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
