"""A list of tasks executed here and now, without a coordinator: a test bench for programs (WRK-095, WRK-096)."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from protocol3.contract.cloudevents import invocation_event
from protocol3.contract.fields import Fields, each
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.contract.models.delivery import CompletedReport, FailedReport, Report, Success
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode
from protocol3.programs.cache import PackageCache
from protocol3.programs.stores import open_store
from protocol3.worker.authority import LocalAuthority
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.execution import Execution, Machinery, assemble
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.orphans import Orphans
from protocol3.worker.settings import ProgramSettings
from protocol3.worker.working_directory import remove_leftovers

LIST_BYTES: Final = 8 * 1024 * 1024
LIST_ITEMS: Final = 1000
DEFAULT_TIMEOUT_MS: Final = 30_000
LONGEST_TIMEOUT_MS: Final = 86_400_000


class InvalidTasks(ValueError):
    """The task list cannot be run. The message names the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTask:
    program: ProgramRef
    event: dict[str, JsonValue]

    @classmethod
    def from_json(cls, value: JsonValue, at: str) -> "LocalTask":
        with Fields(value, at) as f:
            return cls(program=f.required("program", ProgramRef.from_json), event=f.required("event", invocation_event))


def read_tasks(raw: bytes) -> tuple[LocalTask, ...]:
    """The tasks of a list. Raises :class:`InvalidTasks` (WRK-095)."""
    if len(raw) > LIST_BYTES:
        raise InvalidTasks(f"the task list is larger than {LIST_BYTES} bytes")
    try:
        tasks = each(decode(raw), "tasks", 0, LIST_ITEMS, LocalTask.from_json)
        _check_identities(tasks)
    except InvalidJson as error:
        raise InvalidTasks(f"the task list is {error}") from None
    except Refusal as refusal:
        raise InvalidTasks(str(refusal.message)) from None
    return tasks


def _check_identities(tasks: tuple[LocalTask, ...]) -> None:
    attempts: set[JsonValue] = set()
    programs: dict[JsonValue, ProgramRef] = {}
    for index, task in enumerate(tasks):
        attempt, name = task.event["ldgattemptid"], task.event["ldgtaskid"]
        if attempt in attempts:
            raise invalid(f"tasks[{index}].event.ldgattemptid", "must not name an attempt twice")
        attempts.add(attempt)
        if programs.setdefault(name, task.program) != task.program:
            raise invalid(f"tasks[{index}].program", "must be the same for all attempts of a task")


OnReport = Callable[[dict[str, JsonValue]], None]


async def run_locally(
    settings: ProgramSettings,
    tasks: tuple[LocalTask, ...],
    *,
    timeout_ms: int,
    diagnostics: Diagnostics,
    on_report: OnReport,
    orphans: Orphans | None = None,
) -> bool:
    """Run all of them, each program resolved once (WRK-096); True if every invocation succeeded.

    ``on_report`` gets ``{"report": ...}`` or ``{"failure": ...}`` as each one ends. Raises InvalidSetting, and
    ProgramError when store, cache or a program cannot be had: then nothing is run.
    """
    settings.version()
    settings.bootstrap_file()
    await asyncio.to_thread(remove_leftovers)
    store = open_store(settings.store)
    try:
        descriptors: dict[ProgramRef, Descriptor] = {}
        for task in tasks:
            if task.program not in descriptors:
                descriptors[task.program] = await store.resolve(task.program)
        cache = PackageCache(settings.cache)
        try:
            machinery = assemble(settings, cache, store, diagnostics, orphans)
            try:
                succeeded = await _run_all(tasks, descriptors, machinery, settings.concurrency, timeout_ms, on_report)
                await machinery.pool.close()
            except BaseException:
                await machinery.pool.abandon()
                raise
            return succeeded
        finally:
            cache.close()
    finally:
        await store.aclose()


async def _run_all(
    tasks: tuple[LocalTask, ...],
    descriptors: dict[ProgramRef, Descriptor],
    machinery: Machinery,
    concurrency: int,
    timeout_ms: int,
    on_report: OnReport,
) -> bool:
    waiting = iter(tasks)
    succeeded = True

    async def consume() -> None:
        nonlocal succeeded
        for task in waiting:
            report = await _run(task, descriptors[task.program], machinery, timeout_ms)
            match report:
                case CompletedReport():
                    succeeded = succeeded and isinstance(report.outcome, Success)
                    on_report({"report": report.to_json()})
                case FailedReport():
                    succeeded = False
                    on_report({"failure": report.to_json()})
                case other:
                    assert_never(other)

    async with asyncio.TaskGroup() as consumers:
        for _ in range(min(concurrency, len(tasks))):
            consumers.create_task(consume())
    return succeeded


async def _run(task: LocalTask, descriptor: Descriptor, machinery: Machinery, timeout_ms: int) -> Report:
    execution = Execution(machinery, event=task.event, descriptor=descriptor, host=None)
    if "ldgactivationid" in task.event:
        missing = ExecutionFailed("incompatible", "a workflow activation needs a coordinator")  # WRK-080
        return execution.refused(missing)
    limit = now_ms() + timeout_ms
    control = AttemptControl(
        LocalAuthority(sequence=1, lease_deadline_ms=math.inf, execution_deadline_ms=limit, permitted=True)
    )
    try:
        report = await execution.report(control)
        if execution.unfinished is not None:
            await execution.unfinished
        await execution.downloads_ended()
        return report
    finally:
        control.close()


def read_file(path: Path) -> bytes:
    """Raises :class:`InvalidTasks`."""
    try:
        with path.open("rb") as file:
            return file.read(LIST_BYTES + 1)
    except OSError as error:
        raise InvalidTasks(f"cannot read {path}: {error.strerror}") from None
