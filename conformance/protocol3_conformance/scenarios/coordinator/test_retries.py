"""Classification of reports, retries and their delays, exhaustion (chapter 07)."""

from __future__ import annotations

from protocol3_conformance.bounds import words
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same

RETRYABLE = words("error_kind", "retryable")
FINAL = tuple(kind for kind in words("error_kind") if kind not in RETRYABLE)
AT_ONCE = {"max_attempts": 2, "retry_delay_ms": 0}


@scenario(
    "retries/classification",
    cites=["DLV-087", "DLV-088", "DLV-116", "DLV-118", "DLV-119", "DLV-070", "DLV-339", "DLV-340"],
)
async def test_classification(lab: Lab) -> None:
    """The error kind alone decides about a retry, whatever phase, message and cleanup error say."""
    worker = await lab.worker()
    for kind in (*RETRYABLE, *FINAL):
        with lab.case(kind):
            task = await lab.client.task(data=kind, retry_policy=AT_ONCE)
            first = await worker.running()
            report = first.breakdown(kind, phase="cleanup", cleanup_error={"kind": "protocol", "message": "late"})
            reply = (await first.settle(report)).accepted()
            assert reply["task_state"] == ("queued" if kind in RETRYABLE else "failed")
            assert (await first.inspect())["state"] == "failed"
            if kind in RETRYABLE:
                second = await worker.running()
                assert second.task_id == task["task_id"]
                assert (await second.break_down(kind))["task_state"] == "failed"
            await worker.nothing()


@scenario(
    "retries/application-failure-is-final", cites=["DLV-087", "TASK-062", "DLV-072", "TASK-061", "TASK-219", "DLV-338"]
)
async def test_application_failure_is_final(lab: Lab) -> None:
    """A failure that the program itself reports is never retried and is shown word for word."""
    await lab.client.task(retry_policy={"max_attempts": 5, "retry_delay_ms": 0})
    worker = await lab.worker()
    claim = await worker.running()
    (await claim.renew("keep_alive")).accepted()
    kind, message = "Not\u0000a name", "control \u0001 and \uffff and \U0001f600" * 50
    assert (await claim.settle(claim.failure(kind, message))).accepted()["task_state"] == "failed"
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert outcome["failure"] == {"kind": "application", "error": {"kind": kind, "message": message}}
    await worker.nothing()


@scenario("retries/execution-failure-as-reported", cites=["DLV-089", "DLV-119", "TASK-127", "TASK-220"])
async def test_execution_failure_as_reported(lab: Lab) -> None:
    """The last report's error, phase and cleanup error stand in the result unchanged."""
    await lab.client.task(retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    claim = await (await lab.worker()).running()
    cleanup = {"kind": "timed_out", "message": "would not stop"}
    (
        await claim.settle(claim.breakdown("runtime", message="crashed", phase="startup", cleanup_error=cleanup))
    ).accepted()
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert outcome["failure"] == {
        "kind": "execution",
        "error": {"kind": "runtime", "message": "crashed"},
        "phase": "startup",
        "cleanup_error": cleanup,
    }
    assert outcome["attempt_id"] == claim.attempt_id
    stored = (await claim.inspect())["settlement"]["command"]["report"]["report"]
    assert stored["cleanup_error"] == cleanup


@scenario(
    "retries/next-attempt",
    cites=[
        "DLV-028",
        "DLV-043",
        "DLV-045",
        "DLV-068",
        "DLV-117",
        "DLV-118",
        "DLV-130",
        "DLV-347",
        "TRC-015",
        "TASK-123",
        "TASK-126",
        "TASK-215",
        "TASK-230",
        "TASK-238",
        "DLV-345",
    ],
)
async def test_next_attempt(lab: Lab) -> None:
    """A retry keeps task, run, data and descriptor and has a new event, attempt and lease; the old attempt stays."""
    origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    task = await lab.client.task(data={"x": 1.0}, retry_policy=AT_ONCE, origin_trace={"traceparent": origin})
    worker = await lab.worker()
    first = await worker.running()
    await first.break_down("unavailable")
    between = (await lab.client.result(task["task_id"])).accepted()
    assert between["outcome"] is None
    assert (between["task"]["state"], between["task"]["attempt_count"]) == ("queued", 1)
    assert between["task"]["latest_attempt_id"] == first.attempt_id
    finished = (await first.inspect())["finished_at"]
    assert between["task"]["available_at"] == finished, "no delay was asked for"
    second = await worker.claim()
    assert second.assignment["authority"]["renew_sequence"] == 0, "renewals begin anew with each attempt"
    assert (await second.renew("dispatch", sequence=1)).accepted()["dispatch_allowed"]
    for name in ("ldgrunid", "ldgtaskid", "data", "subject", "source"):
        assert same(second.event[name], first.event[name]), f"{name} changed"
    for attempt in (first, second):
        trace = attempt.event.get("traceparent", "")
        assert trace.split("-")[1:2] == [origin.split("-")[1]], f"attempt {attempt.event['ldgattemptno']} has {trace!r}"
    assert second.event["id"] != first.event["id"]
    assert second.attempt_id != first.attempt_id
    assert second.owner["lease_id"] != first.owner["lease_id"]
    assert second.event["ldgattemptno"] == 2
    assert second.assignment["descriptor"] == first.assignment["descriptor"]
    assert same((await first.inspect())["event"], first.event)
    await second.succeed("second time")
    history = (await lab.client.history(task["task_id"])).accepted()
    assert [entry["event"]["at"] for entry in history if entry["event"]["reason"] == "retry_scheduled"] == [finished]
    assert [(entry["event"]["reason"], entry["event"]["attempt_id"]) for entry in history] == [
        ("submitted", None),
        ("claimed", first.attempt_id),
        ("dispatch_authorized", first.attempt_id),
        ("report_accepted", first.attempt_id),
        ("retry_scheduled", first.attempt_id),
        ("claimed", second.attempt_id),
        ("dispatch_authorized", second.attempt_id),
        ("report_accepted", second.attempt_id),
        ("succeeded", second.attempt_id),
    ]
    assert history[3]["event"]["at"] == history[4]["event"]["at"]


@scenario("retries/delay", cites=["DLV-117", "DLV-026", "DLV-033", "DLV-022"])
async def test_delay(lab: Lab) -> None:
    """A delayed retry becomes available exactly its delay after the end of the attempt and is not handed out before."""
    delay = 1500
    task = await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": delay})
    worker = await lab.worker()
    claim = await worker.running()
    await claim.break_down("capacity")
    ended = (await claim.inspect())["finished_at"]
    status = (await lab.client.status(task["task_id"])).accepted()
    assert status["available_at"] == ended + delay
    second = await worker.claim()
    assert second.task_id == task["task_id"]
    claimed = (await lab.client.history(task["task_id"])).accepted()[-1]["event"]
    assert claimed["reason"] == "claimed"
    assert claimed["at"] >= ended + delay, "the retry was handed out before its time"
    assert (await lab.client.status(task["task_id"])).accepted()["available_at"] == ended + delay


@scenario("retries/at-confirmation", cites=["DLV-105", "DLV-100", "DLV-116"])
async def test_at_confirmation(lab: Lab) -> None:
    """An unconfirmed retryable failure is retried when cleanup is confirmed, and its delay counts from there."""
    task = await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 60_000})
    claim = await (await lab.worker()).running()
    reply = (await claim.settle(claim.breakdown("io", quiescence="unconfirmed"))).accepted()
    assert reply["task_state"] == "active"
    assert (await claim.confirm()).accepted() == "queued"
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["quiescence"]) == ("failed", "confirmed")
    status = (await lab.client.status(task["task_id"])).accepted()
    assert status["available_at"] == attempt["finished_at"] + 60_000
    reasons = await lab.client.reasons(task["task_id"])
    assert reasons[-3:] == ["report_accepted", "cleanup_confirmed", "retry_scheduled"]
    # Confirming again tells the state of now.
    assert (await claim.confirm()).accepted() == "queued"
