"""Reads of tasks, attempts and history (chapter 06)."""

from __future__ import annotations

import asyncio

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same


@scenario("reads/absent", cites=["TASK-121", "TASK-122", "HTTP-070"])
async def test_absent(lab: Lab) -> None:
    """What does not exist is not_found, also an attempt that belongs to another task."""
    absent = lab.unique("absent")
    for read in (lab.client.inspect, lab.client.status, lab.client.result, lab.client.history):
        (await read(absent)).refused("not_found")
    (await lab.client.workflow_status(absent)).refused("not_found")
    (await lab.client.workflow_result(absent)).refused("not_found")
    tasks = [await lab.client.task() for _ in range(2)]
    claim = await (await lab.worker()).claim()
    other = next(task["task_id"] for task in tasks if task["task_id"] != claim.task_id)
    (await lab.client.attempt(claim.task_id, absent)).refused("not_found")
    (await lab.client.attempt(other, claim.attempt_id)).refused("not_found")
    (await lab.client.attempt(absent, claim.attempt_id)).refused("not_found")


@scenario(
    "reads/unused-scope",
    cites=["TASK-050", "TASK-121", "WF-042", "WF-063", "EVT-011", "ACT-026"],
    profile="core any-scope",
)
async def test_unused_scope(lab: Lab) -> None:
    """Nothing is found in a scope that nobody has written to, whatever has the ID elsewhere."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    activation = await (await lab.worker()).activation()
    nobody = lab.client_in(lab.other_scope)
    task_id, attempt_id = activation.task_id, activation.attempt_id
    answers = {
        "task": await nobody.inspect(task_id),
        "status": await nobody.status(task_id),
        "result": await nobody.result(task_id),
        "history": await nobody.history(task_id),
        "attempt": await nobody.attempt(task_id, attempt_id),
        "cancel": await nobody.cancel_task(task_id),
        "workflow": await nobody.workflow_status(workflow_id),
        "workflow result": await nobody.workflow_result(workflow_id),
        "cancel of the workflow": await nobody.cancel_workflow(workflow_id),
        "event": await nobody.send_event(workflow_id, "k", nobody.event()),
        "context": await activation.context(scope=lab.other_scope),
    }
    for name, answer in answers.items():
        with lab.case(name):
            answer.refused("not_found")
    assert (await nobody.list_tasks()).accepted()["items"] == []


@scenario("reads/agree", cites=["TASK-120", "TASK-124", "TASK-052", "TASK-053", "TASK-054", "TASK-101"])
async def test_agree(lab: Lab) -> None:
    """Snapshot, status and result of one moment tell the same story, and reading changes nothing."""
    task = await lab.client.task(correlation_key="", data=[1])
    claim = await (await lab.worker()).running()
    for _ in range(2):
        snapshot = (await lab.client.inspect(task["task_id"])).accepted()
        status = (await lab.client.status(task["task_id"])).accepted()
        result = (await lab.client.result(task["task_id"])).accepted()
        assert same(result["task"], status)
        shared = set(snapshot) & set(status)
        assert {name: snapshot[name] for name in shared} == {name: status[name] for name in shared}
        assert (status["queue"], status["correlation_key"]) == (lab.queue, "")
        assert (await claim.inspect())["state"] == ("active" if result["outcome"] is None else "succeeded")
        if result["outcome"] is None:
            await claim.succeed()
    assert await lab.client.reasons(task["task_id"]) == [
        "submitted",
        "claimed",
        "dispatch_authorized",
        "report_accepted",
        "succeeded",
    ]


@scenario("reads/history-pages", cites=["TASK-130", "TASK-131", "TASK-132", "TASK-133"])
async def test_history_pages(lab: Lab) -> None:
    """History is read from any sequence on, at most 100 records a page, ascending and complete."""
    rounds = 26
    task = await lab.client.task(retry_policy={"max_attempts": rounds + 1, "retry_delay_ms": 0})
    worker = await lab.worker()
    for _ in range(rounds):
        await (await worker.running()).break_down("io")
    total = 1 + 4 * rounds
    page = (await lab.client.history(task["task_id"])).accepted()
    assert [entry["sequence"] for entry in page] == list(range(1, bound("HISTORY_PAGE") + 1))
    rest = (await lab.client.history(task["task_id"], after_sequence=str(page[-1]["sequence"]))).accepted()
    assert [entry["sequence"] for entry in rest] == list(range(bound("HISTORY_PAGE") + 1, total + 1))
    middle = (await lab.client.history(task["task_id"], after_sequence="3")).accepted()
    assert same(middle[:5], page[3:8])
    for beyond in (str(total), str(2**64 - 1)):
        assert (await lab.client.history(task["task_id"], after_sequence=beyond)).accepted() == []
    assert (await lab.client.status(task["task_id"])).accepted()["attempt_count"] == rounds


@scenario("reads/beside-writes", cites=["TASK-124", "TASK-060", "TASK-061", "HTTP-069"])
async def test_beside_writes(lab: Lab) -> None:
    """A result read while the task is queued again, or ends, is always one consistent snapshot."""
    worker = await lab.worker()
    for _ in range(3):
        task = await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
        for succeeds in (False, True):
            claim = await worker.running()
            report = claim.success() if succeeds else claim.breakdown("io")
            results = [lab.client.result(task["task_id"]) for _ in range(6)]
            for answer in await asyncio.gather(*results[:3], claim.settle(report), *results[3:]):
                answer.accepted()  # the wire layer has compared task and outcome
