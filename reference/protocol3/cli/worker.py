"""`protocol3 worker`: connect a worker to a coordinator, or run a list of tasks without one."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from protocol3.cli.ending import cancelled_by_signals
from protocol3.cli.failure import CliFailure, Rejected
from protocol3.cli.options import Command, scope
from protocol3.cli.output import emit
from protocol3.contract import limits
from protocol3.contract.models.common import Scope
from protocol3.programs.cache import PackageCache
from protocol3.programs.errors import ProgramError
from protocol3.worker.connect import Delivery, run_worker
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.local_run import (
    DEFAULT_TIMEOUT_MS,
    LONGEST_TIMEOUT_MS,
    InvalidTasks,
    read_file,
    read_tasks,
    run_locally,
)
from protocol3.worker.orphans import Orphans
from protocol3.worker.sessions import CannotOpen
from protocol3.worker.settings import HELPER_BOOTSTRAP, InvalidSetting, ProgramSettings, WorkerSettings


@click.group()
def group() -> None:
    """A worker: connect it to a coordinator, or run a list of tasks without one."""


def program_options(command: Command) -> Command:
    """What running programs needs: passed on by the names of ProgramSettings, but ``cache`` may be None."""
    for option in (
        click.option(
            "--store",
            envvar="PROTOCOL3_STORE",
            required=True,
            metavar="DIR|URL",
            help="Published programs, as a folder or URL.",
        ),
        click.option(
            "--cache",
            type=click.Path(path_type=Path),
            help="Folder for unpacked programs, this worker's alone.  [default: a free one below ~/.cache/protocol3]",
        ),
        click.option(
            "--python", default=sys.executable, show_default="this one", help="Interpreter that runs the programs."
        ),
        click.option(
            "--runner",
            "bootstrap",
            type=click.Path(path_type=Path),
            default=HELPER_BOOTSTRAP,
            show_default="the one that comes with protocol3",
            help="Bootstrap file of the program helper, .../ledgence/worker/bootstrap.py.",
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(1, limits.WORKER_MAX_CONCURRENCY),
            default=limits.DEFAULT_CONCURRENCY,
            show_default=True,
            help="Tasks at a time, and program processes at most.",
        ),
    ):
        command = option(command)
    return command


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
@program_options
@click.option(
    "--acquire-wait-ms",
    type=click.IntRange(0, limits.MAX_WAIT_MS),
    default=limits.MAX_WAIT_MS,
    show_default=True,
    help="How long one request for work may wait at the coordinator.",
)
@click.option("--display-name", metavar="TEXT", help="Name of this worker in its own lines and traces.")
def connect(tenant: str, namespace: str, cache: Path | None, **options: Any) -> None:
    """Run tasks until SIGINT or SIGTERM. Prints {"delivery": ...} at the end.

    The first signal cancels running work and reports it, a second one exits at once. Exit code 1 after a fatal answer
    of the coordinator.
    """

    async def work(diagnostics: Diagnostics) -> Delivery:
        scope = Scope(tenant_id=tenant, namespace=namespace)
        settings = WorkerSettings(scope=scope, cache=cache or free_cache(), **options)
        return await run_worker(settings, diagnostics=diagnostics, on_end=_print, orphans=Orphans())

    delivery = _run(work)
    if delivery.failure is not None:
        raise CliFailure(delivery.failure, code="fatal", advice="the coordinator recovers what was not settled")


@group.command()
@click.option(
    "--tasks",
    "task_list",
    type=click.Path(path_type=Path),
    required=True,
    help='JSON array of {"program": {"id", "version"}, "event"}.',
)
@program_options
@click.option(
    "--timeout-ms",
    type=click.IntRange(1, LONGEST_TIMEOUT_MS),
    default=DEFAULT_TIMEOUT_MS,
    show_default=True,
    help="Execution time of each task.",
)
def run(task_list: Path, cache: Path | None, timeout_ms: int, **options: Any) -> None:
    """Run the tasks of a list without a coordinator. Prints {"report": ...} or {"failure": ...} for each as it ends.

    Exit code 1 if any invocation failed. Workflows need a coordinator.
    """

    async def work(diagnostics: Diagnostics) -> bool:
        settings = ProgramSettings(cache=cache or free_cache(), **options)
        tasks = read_tasks(read_file(task_list))
        return await cancelled_by_signals(
            run_locally(
                settings, tasks, timeout_ms=timeout_ms, diagnostics=diagnostics, on_report=emit, orphans=Orphans()
            )
        )

    if not _run(work):
        raise SystemExit(1)


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


def _run(work: Callable[[Diagnostics], Any]) -> Any:
    diagnostics = Diagnostics()
    try:
        with _failures(), asyncio.Runner(loop_factory=_loop_factory()) as loop:
            return loop.run(work(diagnostics))
    finally:
        diagnostics.close()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (InvalidSetting, InvalidTasks) as failure:
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
