"""Submission of tasks: what is stored, when a key replays and when it conflicts (chapter 06)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.spellings import DIFFERENT, EQUAL, STORED, with_data
from protocol3_conformance.wire.strict_json import same

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=one"}
OTHER_TRACE = {"traceparent": "00-11111111111111111111111111111111-2222222222222222-00"}
DEFAULTS: dict[str, Any] = {
    "retry_policy": {
        "max_attempts": bound("DEFAULT_MAX_ATTEMPTS"),
        "retry_delay_ms": bound("DEFAULT_RETRY_DELAY_MS"),
    },
    "attempt_timeout_ms": bound("DEFAULT_ATTEMPT_TIMEOUT_MS"),
}


@scenario(
    "submission/first-acceptance",
    cites=["TASK-100", "TASK-051", "TASK-101", "JSON-045", "CLI-052", "CLI-056", "TASK-213", "TASK-229"],
)
async def test_first_acceptance(lab: Lab) -> None:
    """A first submission creates one queued task with its defaults written out."""
    command = lab.client.submission(data={"n": 1})
    task = (await lab.client.post("/v1/tasks", command)).accepted()
    assert task["state"] == "queued"
    assert task["attempt_count"] == 0
    assert task["submitted_at"] == task["available_at"]
    assert (task["terminal_at"], task["current_attempt_id"], task["cancel_requested_at"]) == (None, None, None)
    assert same(task["input"], {**command["input"], **DEFAULTS})
    assert same((await lab.client.inspect(task["task_id"])).accepted(), task)
    history = (await lab.client.history(task["task_id"])).accepted()
    assert [(entry["sequence"], entry["event"]["reason"]) for entry in history] == [(1, "submitted")]
    assert history[0]["event"] == {
        "task_id": task["task_id"],
        "attempt_id": None,
        "at": task["submitted_at"],
        "reason": "submitted",
    }


@scenario("submission/replay-in-every-state", cites=["TASK-104", "TASK-109", "TASK-120"])
async def test_replay_in_every_state(lab: Lab) -> None:
    """A repeated submission returns the task as it is now, queued, active or ended, and leaves no trace."""
    command = lab.client.submission(data=[1, 2.0])
    first = (await lab.client.post("/v1/tasks", command)).accepted()

    async def replay(state: str) -> None:
        before = await lab.client.reasons(first["task_id"])
        again = (await lab.client.post("/v1/tasks", command)).accepted()
        assert again["state"] == state
        for name in ("task_id", "run_id", "descriptor", "submitted_at", "input"):
            assert same(again[name], first[name]), f"{name} changed"
        assert same(again, (await lab.client.inspect(first["task_id"])).accepted())
        assert await lab.client.reasons(first["task_id"]) == before

    await replay("queued")
    worker = await lab.worker()
    claim = await worker.claim()
    await replay("active")
    await claim.succeed("done")
    await replay("succeeded")
    await worker.nothing()


@scenario("submission/conflict-per-member", cites=["TASK-105", "TASK-106", "JSON-045", "TASK-214"])
async def test_conflict_per_member(lab: Lab) -> None:
    """Any other member under a used key is a conflict and changes nothing."""
    command = lab.client.submission(data={"a": 1}, correlation_key="order 9", **DEFAULTS)
    task = (await lab.client.post("/v1/tasks", command)).accepted()
    policy, timeout = DEFAULTS["retry_policy"], bound("DEFAULT_ATTEMPT_TIMEOUT_MS")
    changes: dict[str, dict[str, Any]] = {
        "queue": {"queue": lab.unique("elsewhere")},
        "program": {"program": {**command["input"]["program"], "version": "0.0.0-other"}},
        "data": {"data": {"a": 2}},
        "correlation key": {"correlation_key": "order 10"},
        "empty correlation key": {"correlation_key": ""},
        "attempts": {"retry_policy": {**policy, "max_attempts": 4}},
        "delay": {"retry_policy": {**policy, "retry_delay_ms": 0}},
        "timeout": {"attempt_timeout_ms": timeout + 1},
    }
    for name, change in changes.items():
        with lab.case(name):
            other = {**command, "input": {**command["input"], **change}}
            (await lab.client.post("/v1/tasks", other)).refused("conflict")
    without = {name: value for name, value in command["input"].items() if name != "correlation_key"}
    with lab.case("correlation key left out"):
        (await lab.client.post("/v1/tasks", {**command, "input": without})).refused("conflict")
    assert same((await lab.client.inspect(task["task_id"])).accepted(), task)
    assert await lab.client.reasons(task["task_id"]) == ["submitted"]


@scenario("submission/omission-is-default", cites=["TASK-106", "JSON-045", "JSON-082"])
async def test_omission_is_default(lab: Lab) -> None:
    """Leaving a setting out equals stating its default; a null correlation key equals none, an empty one does not."""
    bare = lab.client.submission()
    first = (await lab.client.post("/v1/tasks", bare)).accepted()
    assert "correlation_key" not in first["input"]
    equal: dict[str, dict[str, Any]] = {"defaults stated": DEFAULTS, "null correlation key": {"correlation_key": None}}
    for name, members in equal.items():
        with lab.case(name):
            again = {**bare, "input": {**bare["input"], **members}}
            assert (await lab.client.post("/v1/tasks", again)).accepted()["task_id"] == first["task_id"]
    empty = {**bare, "input": {**bare["input"], "correlation_key": ""}}
    (await lab.client.post("/v1/tasks", empty)).refused("conflict")


@scenario(
    "submission/json-identity",
    cites=["TASK-107", "TASK-039", "JSON-040", "JSON-041", "JSON-042", "JSON-043", "JSON-044"],
)
async def test_json_identity(lab: Lab) -> None:
    """The key compares data as JSON values: number class, sign of zero and array order count, spelling does not."""
    template = lab.client.submission(data="DATA")

    async def submit(data: bytes) -> tuple[int, str | None, str | None]:
        answer = await lab.client.post("/v1/tasks", with_data(template, data))
        return answer.status, answer.code, answer.value.get("task_id")

    _, _, task_id = await submit(STORED)
    for name, data in EQUAL.items():
        with lab.case(name):
            assert await submit(data) == (200, None, task_id)
    for name, data in DIFFERENT.items():
        with lab.case(name):
            assert await submit(data) == (409, "conflict", None)


@scenario(
    "submission/data-comes-back",
    cites=["TASK-037", "JSON-046", "JSON-021", "JSON-012", "DLV-042", "TASK-064", "JSON-084"],
)
async def test_data_comes_back(lab: Lab) -> None:
    """Numbers keep their class and value and text its characters, from submission to event to result."""
    data = {
        "integers": [0, 1, -1, 2**53 + 1, 2**64 - 1, -(2**63)],
        "floats": [0.0, -0.0, 1.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, 0.1],
        "text": ["", "\u0000", "\u007f\u0085", "\u2028\u2029", "\ufeff", "\uffff", "e\u0301", "\U0001f600"],
        "": {"nested": [[[]], {}, None, True, False]},
        "ldgtaskid": "no protocol field",
    }
    task = await lab.client.task(data=data)
    assert same(task["input"]["data"], data)
    claim = await (await lab.worker()).claim()
    assert same(claim.event["data"], data)
    await claim.succeed(data)
    result = (await lab.client.result(task["task_id"])).accepted()
    assert same(result["outcome"]["output"], data)


@scenario("submission/key-per-scope", cites=["TASK-103", "TASK-050", "TASK-121"], profile="core any-scope")
async def test_key_per_scope(lab: Lab) -> None:
    """One key in two namespaces is two tasks, and neither is visible from the other scope."""
    key = lab.unique("shared")
    here = await lab.client.task(key=key)
    there_client = lab.client_in(lab.other_scope)
    there = (await there_client.submit_task(key=key, data="other")).accepted()
    assert here["task_id"] != there["task_id"]
    for client, foreign in ((lab.client, there), (there_client, here)):
        for read in (client.inspect, client.status, client.result, client.history, client.cancel_task):
            (await read(foreign["task_id"])).refused("not_found")
    claim = await (await lab.worker()).claim()
    (await there_client.attempt(claim.task_id, claim.attempt_id)).refused("not_found")
    assert (await lab.client.status(here["task_id"])).accepted()["state"] == "active"


@scenario("submission/two-key-spaces", cites=["WF-011"])
async def test_two_key_spaces(lab: Lab) -> None:
    """A task and a workflow may use the same key without meeting."""
    key = lab.unique("shared")
    task = await lab.client.task(key=key)
    workflow = await lab.client.workflow(key=key, data="other than the task's")
    assert (await lab.client.submit_task(key=key)).accepted()["task_id"] == task["task_id"]
    again = (await lab.client.submit_workflow(key=key, data="other than the task's")).accepted()
    assert again["workflow_id"] == workflow["workflow_id"]


@scenario("submission/unknown-program", cites=["TASK-102", "WF-017"])
async def test_unknown_program(lab: Lab) -> None:
    """A program that the store does not know is not_found, and nothing is created: the key stays free."""
    key, correlation = lab.unique("key"), lab.unique("missing")
    unknown = {"id": "no-such-program", "version": "9.9.9"}
    (await lab.client.submit_task(key=key, program=unknown, correlation_key=correlation)).refused("not_found")
    (await lab.client.submit_workflow(key=key, program=unknown)).refused("not_found")
    assert (await lab.client.list_tasks(correlation_key=correlation)).accepted()["items"] == []
    assert (await lab.client.submit_task(key=key, data="now with a program")).accepted()["state"] == "queued"
    assert (await lab.client.submit_workflow(key=key, data="likewise")).accepted()["revision"] == 0


@scenario(
    "submission/first-trace-stays",
    cites=["TASK-108", "TRC-010", "TASK-111", "WF-014", "DLV-044", "TRC-005", "TRC-014", "TASK-214", "TRC-021"],
)
async def test_first_trace_stays(lab: Lab) -> None:
    """The origin trace is no part of the key; the first one stays, and an invalid one is refused even on replay."""
    command = lab.client.submission(origin_trace=TRACE)
    task = (await lab.client.post("/v1/tasks", command)).accepted()
    assert task["origin_trace"] == TRACE
    for name, trace in {"another": OTHER_TRACE, "none": None}.items():
        with lab.case(name):
            again = (await lab.client.post("/v1/tasks", {**command, "origin_trace": trace})).accepted()
            assert (again["task_id"], again["origin_trace"]) == (task["task_id"], TRACE)
    invalid = {"upper case": {"traceparent": TRACE["traceparent"].upper()}, "unknown member": {**TRACE, "baggage": ""}}
    for name, carrier in invalid.items():
        with lab.case(name):
            (await lab.client.post("/v1/tasks", {**command, "origin_trace": carrier})).refused("invalid_input")
    trace = (await (await lab.worker()).claim()).event.get("traceparent", "")
    assert trace.split("-")[1:2] == [TRACE["traceparent"].split("-")[1]], f"another trace: {trace!r}"


@scenario("submission/concurrent-first", cites=["TASK-110", "TASK-104", "TASK-105"])
async def test_concurrent_first(lab: Lab) -> None:
    """Submissions that race under one key make one task: equal ones get it, different ones conflict."""
    for _ in range(4):
        key = lab.unique("race")
        answers = await asyncio.gather(*(lab.client.submit_task(key=key, data=number % 2) for number in range(8)))
        winners = {answer.value["task_id"] for answer in answers if answer.status == 200}
        data = {answer.value["input"]["data"] for answer in answers if answer.status == 200}
        assert len(winners) == 1
        assert len(data) == 1
        for answer in answers:
            if answer.status != 200:
                answer.refused("conflict")
        assert sum(answer.status == 200 for answer in answers) == 4
        assert await lab.client.reasons(winners.pop()) == ["submitted"]


@scenario(
    "submission/invalid-commands",
    cites=["TASK-113", "TASK-040", "TASK-016", "JSON-080", "JSON-081", "JSON-082", "JSON-083", "WF-022", "TASK-212"],
)
async def test_invalid_commands(lab: Lab) -> None:
    """Missing, unknown and ill-typed members are refused on both routes, and the key stays free."""
    command = lab.client.submission()
    program = command["input"]["program"]
    least, most = bound("MIN_ATTEMPT_TIMEOUT_MS"), bound("MAX_ATTEMPT_TIMEOUT_MS")

    def inner(**members: Any) -> dict[str, Any]:
        return {**command, "input": {**command["input"], **members}}

    def policy(attempts: Any, delay: Any) -> dict[str, Any]:
        return inner(retry_policy={"max_attempts": attempts, "retry_delay_ms": delay})

    def lacking(name: str) -> dict[str, Any]:
        return {**command, "input": {key: value for key, value in command["input"].items() if key != name}}

    cases: dict[str, Any] = {
        **{f"no {name}": lacking(name) for name in command["input"]},
        "no key": {"input": command["input"]},
        "null key": {**command, "idempotency_key": None},
        "no input": {"idempotency_key": "k"},
        "unknown member": {**command, "priority": 1},
        "unknown member of input": inner(priority=1),
        "scope as an object": inner(scope=lab.scope),
        "program as text": inner(program="mixed-workflow@1.0.1"),
        "program without version": inner(program={"id": program["id"]}),
        "program with a digest": inner(program={**program, "digest": "sha256:0"}),
        "null retry policy": inner(retry_policy=None),
        "retry policy without delay": inner(retry_policy={"max_attempts": 1}),
        "retry policy with a stranger": inner(retry_policy={**DEFAULTS["retry_policy"], "backoff": 2}),
        "no attempts": policy(0, 0),
        "attempts beyond the bound": policy(bound("MAX_ATTEMPTS") + 1, 0),
        "negative delay": policy(1, -1),
        "delay beyond the bound": policy(1, bound("MAX_RETRY_DELAY_MS") + 1),
        "float attempts": policy(1.0, 0),
        "null timeout": inner(attempt_timeout_ms=None),
        "short timeout": inner(attempt_timeout_ms=least - 1),
        "long timeout": inner(attempt_timeout_ms=most + 1),
        "numeric queue": inner(queue=7),
        "trace as text": {**command, "origin_trace": "00-zz"},
    }
    for path in ("/v1/tasks", "/v1/workflows"):
        for name, wrong in cases.items():
            with lab.case(f"{path}: {name}"):
                (await lab.client.post(path, wrong)).refused("invalid_input", 400)
        (await lab.client.post(path, command)).accepted()
    for name, allowed in {
        "bounds below": {"retry_policy": {"max_attempts": 1, "retry_delay_ms": 0}, "attempt_timeout_ms": least},
        "bounds above": {
            "retry_policy": {
                "max_attempts": bound("MAX_ATTEMPTS"),
                "retry_delay_ms": bound("MAX_RETRY_DELAY_MS"),
            },
            "attempt_timeout_ms": most,
        },
    }.items():
        with lab.case(name):
            (await lab.client.submit_task(**allowed)).accepted()


@scenario("submission/queues-and-correlation-are-free", cites=["TASK-114", "TASK-115", "TXT-002"])
async def test_queues_and_correlation_are_free(lab: Lab) -> None:
    """Queues exist by being named, and one correlation key may stand on any number of tasks."""
    correlation, queue = lab.unique("shared"), lab.unique("never seen / 100%")
    tasks = [await lab.client.task(queue=queue, correlation_key=correlation) for _ in range(3)]
    assert len({task["task_id"] for task in tasks}) == 3
    worker = await lab.worker(queue=queue)
    assert {(await worker.claim()).task_id for _ in tasks} == {task["task_id"] for task in tasks}
