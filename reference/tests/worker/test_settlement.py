"""Freezing settlements (WRK-072), settings and the pure checks of acquisitions."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import limits
from protocol3.contract.models.common import Scope
from protocol3.contract.models.delivery import AcquireCommand, Assignment, ReportIdentity, SettleCommand
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import decode
from protocol3.worker import reports
from protocol3.worker.consumer import InvalidAssignment, read_reply
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import Invocation, Result, read_running
from protocol3.worker.settings import InvalidSetting, Pacing, WorkerSettings
from protocol3.worker.settlement import freeze

OWNER = {
    "scope": {"tenant_id": "t", "namespace": "n"}, "task_id": "task", "attempt_id": "att", "lease_id": "lease",
    "generation": 1, "worker_session_id": "ws", "consumer_id": 2,
}  # fmt: skip
ASSIGNMENT: dict[str, Any] = {
    "descriptor": {"program": {"id": "p", "version": "1"}, "digest": "sha256:" + "0" * 64, "size": 1},
    "event": {
        "specversion": "1.0", "id": "evt", "source": "urn:x", "type": "com.ledgence.task.invocation.requested.v1",
        "datacontenttype": "application/json", "ldgtenantid": "t", "ldgnamespace": "n", "ldgrunid": "run",
        "ldgtaskid": "task", "ldgattemptid": "att", "ldgattemptno": 1, "data": None,
    },
    "lease": {"owner": OWNER, "expires_at": 1},
    "authority": {
        "owner": OWNER, "expires_at": 1, "remaining_ms": 1, "execution_remaining_ms": 1, "renew_sequence": 0,
        "cancel_requested": False, "dispatch_allowed": False,
    },
    "attempt_deadline": 1,
}  # fmt: skip
USE = reports.ProcessUse(process_id=1, reused=False, elapsed_ms=1)
OBSERVATIONS = {
    "runtime_started_at_ms": 1, "runtime_elapsed_us": 2, "process_cpu_user_us": 1, "process_cpu_system_us": 3,
    "process_lifetime_peak_rss_bytes": 4, "local_steps": [], "local_steps_truncated": False,
}  # fmt: skip


def success(output: Any) -> Result:
    event = ASSIGNMENT["event"]
    frame = {
        "v": 3, "type": "result", "event_id": "evt", "attempt_id": "att", "status": "success", "output": output,
        "observations": OBSERVATIONS,
    }  # fmt: skip
    result = read_running(frame, b"", Invocation(protocol=3, event=event), 1)
    assert isinstance(result, Result)
    return result


def identity(assignment: Assignment) -> ReportIdentity:
    return ReportIdentity.of(assignment.event, assignment.descriptor)


def frozen(output: Any) -> SettleCommand:
    assignment = Assignment.from_json(ASSIGNMENT)
    settlement = freeze(assignment, reports.completed(identity(assignment), success(output), USE), "confirmed")
    assert len(settlement.body) <= 8 * 1024 * 1024
    return SettleCommand.from_json(decode(settlement.body))


def test_a_settlement_that_fits_goes_whole() -> None:
    """WRK-069, WRK-072."""
    command = frozen({"rows": 1.0})
    report = command.to_json()["report"]["report"]  # type: ignore[index, call-overload]
    assert (command.operation_id, command.quiescence) == ("worker-result-v1", "confirmed")
    assert command.processing_trace is None
    assert report["outcome"] == {"status": "success", "output": {"rows": 1.0}}
    assert report["observations"] == OBSERVATIONS


def test_a_settlement_that_is_too_large_loses_observations_first() -> None:
    """WRK-072: then it becomes a protocol failure; the program is not run again."""
    limit = 8 * 1024 * 1024
    assignment = Assignment.from_json(ASSIGNMENT)
    observed_report = reports.completed(identity(assignment), success(""), USE)
    whole = len(freeze(assignment, observed_report, "confirmed").body)
    bare = len(freeze(assignment, replace(observed_report, observations=None), "confirmed").body)
    for size, observed, kind in (
        (limit - whole, True, None),
        (limit - whole + 1, False, None),
        (limit - bare, False, None),
        (limit - bare + 1, False, "protocol"),
    ):
        report: Any = frozen("x" * size).to_json()["report"]
        assert ("observations" in report["report"]) is observed
        if kind is None:
            assert report["kind"] == "completed"
        else:
            assert report["kind"] == "failed"
            assert report["report"]["error"]["kind"] == kind
            assert report["report"]["phase"] == "execution"
            assert report["report"]["execution_may_have_started"] is True


def test_a_failed_report_names_its_cleanup_error() -> None:
    """WRK-066."""
    assignment = Assignment.from_json(ASSIGNMENT)
    report = reports.failed(
        identity(assignment),
        ExecutionFailed("runtime", "ended"),
        reports.EXECUTION,
        cleanup=ExecutionFailed("io", "the directory stays"),
    )
    assert report.to_json()["cleanup_error"] == {"kind": "io", "message": "the directory stays"}
    assert "cleanup_error" not in replace(report, cleanup_error=None).to_json()


COMMAND = AcquireCommand(
    scope=Scope(tenant_id="t", namespace="n"), queue="q", worker_session_id="ws", consumer_id=2, sequence=5
)


def changed(path: str, value: Any) -> dict[str, Any]:

    document = {"disposition": "assigned", "sequence": 5, "assignment": copy.deepcopy(ASSIGNMENT)}
    *parents, last = path.split(".")
    target: Any = document
    for parent in parents:
        target = target[parent]
    target[last] = value
    return document


def test_valid_replies_are_read() -> None:
    assert read_reply({"disposition": "empty", "sequence": 5}, COMMAND)
    assert read_reply(changed("sequence", 5), COMMAND)


@pytest.mark.parametrize(
    "reply",
    [
        {"disposition": "empty", "sequence": 4},
        changed("sequence", 6),
        changed("assignment.event.ldgtenantid", "other"),
        changed("assignment.event.ldgtaskid", "other"),
        changed("assignment.event.ldgattemptno", 2),
        changed("assignment.authority.owner", {**OWNER, "lease_id": "other"}),
        changed("assignment.descriptor.digest", "sha256:0"),
        changed("assignment.workflow_activation_id", "task"),
        changed("assignment.lease.owner", {**OWNER, "consumer_id": 1}),
    ],
)
def test_contradictory_replies_are_fatal(reply: dict[str, Any]) -> None:
    """WRK-009, WRK-010."""
    with pytest.raises(InvalidAssignment):
        read_reply(reply, COMMAND)


@pytest.mark.parametrize("field", ["worker_session_id", "consumer_id", "scope"])
def test_an_assignment_of_another_consumer_is_fatal(field: str) -> None:
    """WRK-010: even if it is consistent in itself."""
    other: dict[str, Any] = {"worker_session_id": "x", "consumer_id": 3, "scope": {"tenant_id": "t", "namespace": "x"}}
    owner = {**OWNER, field: other[field]}
    document = changed("assignment.lease.owner", owner)
    document["assignment"]["authority"]["owner"] = owner
    if field == "scope":
        document["assignment"]["event"]["ldgnamespace"] = "x"
    with pytest.raises(InvalidAssignment):
        read_reply(document, COMMAND)


@pytest.mark.parametrize("value", [None, [], {}, {"disposition": "later", "sequence": 5}, {"disposition": "empty"}])
def test_what_is_no_reply_is_uncertain(value: Any) -> None:
    """DLV-207: it is repeated, not fatal."""
    with pytest.raises(Refusal):
        read_reply(value, COMMAND)


def settings(**changes: Any) -> WorkerSettings:
    plain = {
        "server": "http://127.0.0.1:8080", "scope": Scope(tenant_id="t", namespace="n"), "queue": "q", "store": "s",
        "cache": Path("c"), "python": "python3",
    }  # fmt: skip
    return WorkerSettings(**{**plain, **changes})


@pytest.mark.parametrize(
    "change",
    [
        {"server": "localhost:8080"}, {"server": "http://"}, {"server": "http://u@h"}, {"server": "http://h?x"},
        {"server": "ftp://h"}, {"server": "http://h:99999"}, {"queue": ""}, {"queue": "q" * 129},
        {"scope": Scope(tenant_id="\x00", namespace="n")}, {"concurrency": 0}, {"concurrency": 1025},
        {"acquire_wait_ms": -1}, {"acquire_wait_ms": 20_001}, {"frame_bytes": 255},
        {"display_name": ""}, {"display_name": "n" * 129}, {"display_name": "\x1b[2J"},
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(change: dict[str, Any]) -> None:
    """WRK-002, WRK-098."""
    assert settings()
    with pytest.raises(InvalidSetting):
        settings(**change)


@pytest.mark.parametrize(
    "change",
    [
        {"request_timeout_ms": 30_001}, {"renew_interval_ms": 15_001}, {"extend_interval_ms": 43_200_001},
        {"retry_delay_ms": 0}, {"idle_delay_ms": -1}, {"startup_ms": 0},
    ],
)  # fmt: skip
def test_pacing_stays_in_its_ranges(change: dict[str, int]) -> None:
    """WRK-098."""
    with pytest.raises(InvalidSetting):
        Pacing(**change)


def test_settings_that_are_left_out() -> None:
    """WRK-098: the defaults."""
    given = settings()
    assert (given.concurrency, given.acquire_wait_ms, given.frame_bytes) == (4, 20_000, 2 * 1024 * 1024)
    assert given.pacing == Pacing(
        idle_delay_ms=1_000,
        retry_delay_ms=250,
        request_timeout_ms=30_000,
        renew_interval_ms=15_000,
        dispatch_confirmation_ms=given.pacing.dispatch_confirmation_ms,
        extend_interval_ms=3_600_000,
        fetch_timeout_ms=30_000,
        startup_ms=10_000,
        shutdown_ms=2_000,
    )
    assert limits.SAFETY_MARGIN_MS == 5_000


def test_paths_are_made_canonical(tmp_path: Path) -> None:
    """RUN-005: with a directory part; a bare interpreter name is left to PATH."""
    python, link = tmp_path / "python", tmp_path / "link"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    link.symlink_to(python)
    assert settings(python=str(link)).interpreter() == str(python.resolve())
    assert settings(python="sh").interpreter() == "sh"
    for wrong in (str(tmp_path / "absent"), "no-such-interpreter", str(tmp_path) + "/"):
        with pytest.raises(InvalidSetting):
            settings(python=wrong).interpreter()
    assert settings(bootstrap=link).bootstrap_file() == python.resolve()
    with pytest.raises(InvalidSetting):
        settings(bootstrap=tmp_path).bootstrap_file()
