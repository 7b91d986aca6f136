"""Every row of the contract's table from outcome to report (chapter 22, Outcomes and reports), each with all its cells.

The tests of this folder look at each situation from other sides too; here is the whole table, and after each report
whether the process was kept and whether local work was quiescent.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from protocol3.programs import cache_entry
from protocol3.programs.cache import PackageCache
from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import host_platform
from protocol3.programs.stores import FilesystemStore

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

ACQUISITIONS = "/v1/acquisitions"
CONTEXTS = "/v1/workflows/activations/context"

WORKFLOW = """\
from ledgence.worker.workflow import workflow_context

async def handle(event):
    ctx = workflow_context()
    match event["data"]["do"]:
        case "complete":
            return ctx.complete("done")
        case "fail":
            return ctx.fail("refused", "no stock")
        case "raise":
            raise ValueError("broken")
"""
#: The import waits: the child is silent before `ready`.
SILENT = "import pathlib, time\npathlib.Path({mark!r}).touch()\ntime.sleep(600)\ndef handle(event): ..."

Stop = Callable[["Stage"], Awaitable[Any]]


@dataclass
class Stage:
    """What a row acts on."""

    coordinator: Any
    publish: Publish
    refuse: Any
    monkeypatch: pytest.MonkeyPatch
    mark: Path
    attempt: Any = None
    program: Any = None
    bench: Any = None

    async def reached(self) -> None:
        """The handler, the import or the download has begun."""
        await self.bench.until(self.mark.exists)


@dataclass(kw_only=True)
class Row:
    """``expects``: the outcome of a completed report, error kind, phase and started flag of a failed one, or None
    when the worker reports nothing and ends. ``after`` acts once the worker runs."""

    rule: str
    name: str
    expects: tuple[Any, ...] | None
    data: Any = None
    source: str | None = None
    script: str | None = None
    activation: dict[str, Any] | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    pacing: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    before: Callable[[Stage], Any] | None = None
    after: Stop | None = None


async def cancelled(stage: Stage) -> None:
    await stage.reached()
    stage.coordinator.cancelled.add(stage.attempt.owner["attempt_id"])


async def lease_lost(stage: Stage) -> None:
    await stage.reached()
    stage.coordinator.script("/v1/renewals", stage.refuse("ownership_lost", 409))


async def begun(stage: Stage) -> None:
    await stage.reached()


async def owned_already(stage: Stage) -> None:
    """The coordinator assigns the same attempt to another consumer."""
    await stage.reached()
    first = stage.attempt
    stage.attempt = stage.coordinator.assign(stage.program, None)
    stage.attempt.owner["attempt_id"] = first.owner["attempt_id"]
    stage.attempt.assignment["event"]["ldgattemptid"] = first.owner["attempt_id"]
    stage.coordinator.attempts[first.owner["attempt_id"]] = stage.attempt


async def draining(stage: Stage) -> None:
    """A poll turns out to have been assigned when the worker has been told to stop."""
    await stage.coordinator.until(lambda: stage.coordinator.seen(ACQUISITIONS))
    stage.bench.worker.stop("now")
    late = stage.attempt = stage.coordinator.assign(stage.program, None)
    stage.coordinator._cursors[0] = (1, late)
    late.assignment["authority"] = stage.coordinator.authority(late, 0, dispatch=False)


async def no_slot(stage: Stage) -> None:
    stage.bench.worker._pool._limit = 0
    stage.attempt = stage.coordinator.assign(stage.program, None)


def over_before_permission(stage: Stage) -> None:
    stage.coordinator.cancelled.add(stage.attempt.owner["attempt_id"])


def blob(stage: Stage) -> Path:
    return stage.mark.parent / "store/blobs" / f"{stage.program.descriptor.digest[7:]}.zip"


def missing(stage: Stage) -> None:
    blob(stage).unlink()


def damaged(stage: Stage) -> None:
    path = blob(stage)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def above_its_size(stage: Stage) -> None:
    path = blob(stage)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"x")


def full_cache(stage: Stage) -> None:
    def refuse(*_: Any) -> None:
        raise ProgramError("capacity", "the cache is full of packages in use")

    stage.monkeypatch.setattr(PackageCache, "insert", refuse)


def full_disk(stage: Stage) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    stage.monkeypatch.setattr(cache_entry, "write_new", refuse)


def slow_download(stage: Stage) -> None:
    """It ends soon after its attempt was settled, for it holds the slot."""
    real = FilesystemStore.fetch

    async def slow(self: FilesystemStore, descriptor: Any) -> bytes:
        stage.mark.touch()
        await stage.attempt.settled.wait()
        return await real(self, descriptor)

    stage.monkeypatch.setattr(FilesystemStore, "fetch", slow)


def context(change: dict[str, Any]) -> Callable[[Stage], None]:
    def arrange(stage: Stage) -> None:
        stage.coordinator.contexts[stage.attempt.owner["task_id"]].update(change)

    return arrange


def refused_context(code: str, status: int) -> Callable[[Stage], None]:
    message = "no" if code == "invalid_input" else None
    return lambda stage: stage.coordinator.script(CONTEXTS, stage.refuse(code, status, message))


def another_marker(stage: Stage) -> None:
    stage.attempt.assignment["workflow_activation_id"] = "task_9"


def invalid_descriptor(stage: Stage) -> None:
    stage.attempt.assignment["descriptor"] = {**stage.attempt.assignment["descriptor"], "size": 0}


def deadline_ms(execution_ms: int) -> Callable[[Stage], None]:
    """Five seconds of it are the safety margin."""

    def arrange(stage: Stage) -> None:
        stage.coordinator.execution_ms = execution_ms

    return arrange


def both(*steps: Callable[[Stage], Any]) -> Callable[[Stage], None]:
    def arrange(stage: Stage) -> None:
        for step in steps:
            step(stage)

    return arrange


def execution(kind: str) -> tuple[str, str, bool]:
    return (kind, "execution", True)


def preparation(kind: str) -> tuple[str, str, bool]:
    return (kind, "preparation", False)


def startup(kind: str) -> tuple[str, str, bool]:
    return (kind, "startup", False)


def admission(kind: str) -> tuple[str, str, bool]:
    return (kind, "admission", False)


OTHER = {"platform": {"os": "macos" if host_platform().os == "linux" else "linux", "arch": host_platform().arch}}
SLEEP = {"do": "sleep"}
PATIENT = {"startup_ms": 60_000}
ATTENTIVE = {"renew_interval_ms": 20}
WRONG = "serve(lambda frame: {})".format

TABLE = [
    Row(rule="WRK-050", name="a value", data={"do": "echo", "value": 1.0}, expects=("success", 1.0)),
    Row(rule="WRK-050", name="a decision", source=WORKFLOW, activation={}, data={"do": "complete"},
        expects=("success", "complete")),
    Row(rule="WRK-050", name="the decision fail", source=WORKFLOW, activation={}, data={"do": "fail"},
        expects=("success", "fail")),
    Row(rule="WRK-051", name="an exception", data={"do": "raise", "message": "no"},
        expects=("failure", "business_error", "no")),
    Row(rule="WRK-051", name="no JSON value", source="def handle(event):\n    return {1}\n",
        expects=("failure", "invalid_output", None)),
    Row(rule="WRK-052", name="stopped before permission", before=over_before_permission,
        expects=admission("cancelled")),
    Row(rule="WRK-053", name="another marker: refused before it is owned", activation={}, before=another_marker,
        expects=None),
    Row(rule="WRK-054", name="context: ownership lost", source=WORKFLOW, activation={},
        before=refused_context("ownership_lost", 409), expects=admission("cancelled")),
    *[Row(rule="WRK-054", name=f"context: {code}", source=WORKFLOW, activation={},
          before=refused_context(code, status), expects=admission("protocol"))
      for code, status in (("invalid_input", 400), ("conflict", 409), ("not_found", 404))],
    Row(rule="WRK-054", name="context: another refusal", source=WORKFLOW, activation={},
        before=refused_context("unknown_session", 404), expects=admission("unavailable")),
    Row(rule="WRK-054", name="context of another workflow", source=WORKFLOW, activation={},
        before=context({"workflow_id": "wf_2"}), expects=admission("protocol")),
    Row(rule="WRK-055", name="an invalid descriptor: refused before it is owned", before=invalid_descriptor,
        expects=None),
    Row(rule="WRK-055", name="the worker is stopping: as WRK-090 says", after=draining,
        expects=admission("cancelled"), settings={"late": True}),
    Row(rule="WRK-055", name="owned already", data=SLEEP, after=owned_already, settings={"concurrency": 2},
        expects=admission("invalid_input")),
    Row(rule="WRK-056", name="missing", before=missing, expects=preparation("not_found")),
    Row(rule="WRK-056", name="damaged", before=damaged, expects=preparation("integrity")),
    Row(rule="WRK-056", name="for another platform", manifest=OTHER, expects=preparation("incompatible")),
    Row(rule="WRK-049", name="an activation of a task program", activation={}, manifest={"protocol": 2},
        expects=preparation("incompatible")),
    Row(rule="WRK-056", name="over its size", before=above_its_size, expects=preparation("invalid_input")),
    Row(rule="WRK-056", name="store unreachable", settings={"store": "http://127.0.0.1:1"},
        expects=preparation("unavailable")),
    Row(rule="WRK-056", name="fetch timeout", before=slow_download, pacing={"fetch_timeout_ms": 30},
        expects=preparation("timed_out")),
    Row(rule="WRK-056", name="cache full", before=full_cache, expects=preparation("capacity")),
    Row(rule="WRK-056", name="disk full", before=full_disk, expects=preparation("io")),
    Row(rule="WRK-057", name="no interpreter", settings={"python": "broken"}, expects=startup("runtime")),
    Row(rule="WRK-057", name="exit before ready", source="raise SystemExit(3)", expects=startup("runtime")),
    Row(rule="WRK-057", name="silent before ready", source=SILENT, pacing={"startup_ms": 1_000},
        expects=startup("timed_out")),
    Row(rule="WRK-057", name="bad ready", script="ready(pid=1)", expects=startup("protocol")),
    Row(rule="WRK-057", name="no slot", after=no_slot, settings={"late": True}, expects=startup("capacity")),
    Row(rule="WRK-058", name="cancelled in preparation", before=slow_download, after=cancelled, pacing=ATTENTIVE,
        expects=preparation("cancelled")),
    Row(rule="WRK-058", name="deadline in preparation", before=both(slow_download, deadline_ms(5_300)), after=begun,
        expects=preparation("timed_out")),
    Row(rule="WRK-058", name="cancelled in start-up", source=SILENT, after=cancelled, pacing=PATIENT | ATTENTIVE,
        expects=startup("cancelled")),
    Row(rule="WRK-058", name="deadline in start-up", source=SILENT, before=deadline_ms(6_000), pacing=PATIENT,
        expects=startup("timed_out")),
    Row(rule="WRK-059", name="exit", data={"do": "exit"}, expects=execution("runtime")),
    Row(rule="WRK-059", name="killed", data={"do": "kill"}, expects=execution("runtime")),
    Row(rule="WRK-059", name="closes its stream", script=WRONG("(out.close(), os.close(1), time.sleep(600))"),
        expects=execution("runtime")),
    Row(rule="WRK-060", name="runtime_error", source=WORKFLOW, activation={}, data={"do": "raise"},
        expects=execution("runtime")),
    *[Row(rule="WRK-061", name=name, script=WRONG(script), settings={"frame_bytes": 4_096},
          expects=execution("protocol"))
      for name, script in (
          ("too long", "raw(b' ' * LIMIT)"),
          ("bad JSON", "raw(b'{\\n')"),
          ("wrong identity", "fine({**frame, 'attempt_id': 'another'})"),
          ("wrong version", "result(frame, status='success', output=1, v=2)"),
          ("bad status", "result(frame, status='fine', output=1)"),
          ("bad request", "request(frame, id=1.5)"),
          ("unexpected request", "request(frame)"),
      )],
    Row(rule="WRK-062", name="cancelled", data=SLEEP, after=cancelled, pacing=ATTENTIVE,
        expects=execution("cancelled")),
    Row(rule="WRK-062", name="deadline", data=SLEEP, before=deadline_ms(7_000), expects=execution("timed_out")),
    Row(rule="WRK-062", name="lease lost", data=SLEEP, after=lease_lost, pacing=ATTENTIVE,
        expects=execution("cancelled")),
    Row(rule="WRK-063", name="invoke above the frame limit", data={"do": "echo", "value": "x" * 3_000},
        settings={"frame_bytes": 2_000}, expects=execution("invalid_input")),
]  # fmt: skip


def test_every_row_of_the_table_is_here() -> None:
    """WRK-050…063."""
    assert {row.rule for row in TABLE} == {f"WRK-0{number}" for number in range(50, 64)} | {"WRK-049"}


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.rule}-{row.name}") for row in TABLE])
async def test_the_row(
    coordinator: Any, start: Start, scripted: Start, publish: Publish, quick: Any, refuse: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, row: Row,
) -> None:  # fmt: skip
    """WRK-036, WRK-064, WRK-065, WRK-070: kind, phase, started flag, quiescence, and what became of the process."""
    stage = Stage(coordinator, publish, refuse, monkeypatch, tmp_path / "mark")
    arrange(stage, row)
    settings = {name: value for name, value in row.settings.items() if name != "late"}
    if settings.get("python") == "broken":
        settings["python"] = broken_interpreter(tmp_path)
    begin = start if row.script is None else scripted
    stage.bench = await begin(pacing=quick(**row.pacing), **settings)
    if row.after is not None:
        await row.after(stage)
    if row.expects is None:
        delivery = await refused(stage)
        assert (delivery.settled_attempts, stage.attempt.settlements) == (0, [])
        return
    command = await stage.attempt.end()
    assert told(command["report"]) == row.expects
    assert command["quiescence"] == "confirmed"
    if row.name != "owned already":  # its other consumer is busy
        assert stage.bench.worker._pool.occupied == (1 if command["report"]["kind"] == "completed" else 0)


def arrange(stage: Stage, row: Row) -> None:
    source = row.script if row.script is not None else row.source
    words = {} if source is None else {"source": source.replace("{mark!r}", repr(str(stage.mark)))}
    stage.program = stage.publish(**words, **row.manifest)
    data = {**row.data, "mark": str(stage.mark)} if isinstance(row.data, dict) else row.data
    if row.activation is not None:
        stage.attempt = stage.coordinator.activate(stage.program, data, **row.activation)
    elif "late" not in row.settings:
        stage.attempt = stage.coordinator.assign(stage.program, data)
    if row.before is not None:
        row.before(stage)


async def refused(stage: Stage) -> Any:
    """The worker takes no more work, and the same acquisition is asked again until it is answered otherwise."""
    await stage.bench.until(lambda: stage.bench.worker.delivery(finished=False).failure)
    stage.coordinator._cursors[0] = (1, None)
    return await stage.bench.end()


def broken_interpreter(tmp_path: Path) -> str:
    path = tmp_path / "python"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    return str(path)


def told(report: dict[str, Any]) -> tuple[Any, ...]:
    """The cells of a report, as the rows name them; the message of a failure only where a row gives one."""
    body = report["report"]
    if report["kind"] == "failed":
        assert "outcome" not in body
        return body["error"]["kind"], body["phase"], body["execution_may_have_started"]
    outcome = body["outcome"]
    if outcome["status"] == "success":
        output = outcome["output"]
        return "success", output["kind"] if isinstance(output, dict) else output
    return "failure", outcome["kind"], outcome["message"] if outcome["kind"] == "business_error" else None


async def test_a_report_that_is_not_quiescent_carries_its_clean_up(
    coordinator: Any, start: Start, publish: Publish, quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-066, WRK-070: the last column, for a row of each phase that has a process."""
    gone = asyncio.Event()
    monkeypatch.setattr("protocol3.worker.process.group_is_gone", lambda _: gone.is_set())
    attempts = [
        coordinator.assign(publish("raise SystemExit(3)")),
        coordinator.assign(publish(), {"do": "exit"}),
    ]
    bench = await start(pacing=quick(shutdown_ms=30), concurrency=2)
    for attempt, phase in zip(attempts, ("startup", "execution"), strict=True):
        command = await attempt.end()
        assert (command["quiescence"], attempt.report["phase"]) == ("unconfirmed", phase)
        assert (attempt.report["error"]["kind"], attempt.report["cleanup_error"]["kind"]) == ("runtime", "timed_out")
    gone.set()
    assert (await bench.end()).finished
