"""Workflow activations (chapter 22, Activations)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.coordinator import COMMITS, CONTEXTS, FORKS, RENEWALS, losing, refusing, replying
from protocol3_conformance.scenarios.runtime.payloads import APPLICATION, task_outcome
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.scenarios.worker.test_outcomes import RAW
from protocol3_conformance.wire.strict_json import same
from protocol3_conformance.worker_lab import WorkerLab

COMMIT = "return ctx.complete([await ctx.local('a', add, x=1), await ctx.local('b', add, x=2.0)])"
FORK = """
left = ctx.branch("left", entrypoint="l", queue="main", data={"n": 1.0})
right = ctx.branch("right", entrypoint="r", queue="main", data=None, attempt_timeout_ms=60_000)
fork = await ctx.fork("split", branches=[left, right])
return ctx.join(fork, resume="joined", state=list(fork.branch_keys))
"""
POLICY = {"max_attempts": 3, "retry_delay_ms": 5000}
REFUSALS = {
    "ownership_lost": "cancelled",
    "invalid_input": "protocol",
    "conflict": "protocol",
    "not_found": "protocol",
    "obsolete_operation": "unavailable",
}
ROUTES = (("return ctx.complete(1)", CONTEXTS), (COMMIT, COMMITS), (FORK, FORKS))


@worker_check("worker-activation/context", cites=["WRK-078", "WRK-079", "WRK-087", "WRK-050"])
async def test_context(lab: WorkerLab) -> None:
    """The context is read with the owner after permission and reaches the handler unchanged; tasks read none."""
    worker = lab.worker()
    record = {"key": "k", "callable": "program:add", "input": {"x": 1}, "output": {"n": 1e-7}}
    code = "return ctx.complete([ctx.state, await ctx.local('k', add, x=1)])"
    attempt = await lab.activation(code, state={"n": 1.0}, local_steps=[record])
    _, output = await lab.coordinator.settled(attempt)
    assert (output.get("kind"), output.get("activation_id")) == ("complete", attempt.owner["task_id"])
    assert same(output["output"], [{"n": 1.0}, {"n": 1e-7}])
    assert lab.coordinator.sent(CONTEXTS) == [attempt.owner]
    assert lab.coordinator.times(RENEWALS)[0] < lab.coordinator.times(CONTEXTS)[0]
    task = await lab.task("return 1", event={"ldgworkflowid": "wf_1"})
    await lab.coordinator.settled(task)
    failed = await lab.activation("return ctx.fail('k', 'm')")
    told = await lab.coordinator.settled(failed)
    assert (told[0], len(told)) == ("success", 2)
    assert told[1]["kind"] == "fail"
    assert (len(lab.coordinator.sent(CONTEXTS)), lab.coordinator.sent(COMMITS)) == (2, [])
    await lab.stopped(worker)


@worker_check("worker-activation/results-of-children", cites=["WRK-079"])
async def test_results_of_children(lab: WorkerLab) -> None:
    """However the tasks of a workflow ended, also before they began, their results reach the handler unchanged."""
    worker = lab.worker()
    results = {state: task_outcome(state) for state in ("succeeded", "failed", "cancelled")}
    results["never begun"] = task_outcome("failed", execution_may_have_started=False)
    results["given up"] = task_outcome("failed", quiescence="confirmed", failure=APPLICATION)
    attempt = await lab.activation("return ctx.complete(ctx.inputs)", inputs=results)
    told = await lab.coordinator.settled(attempt)
    assert told[0] == "success", f"a valid context was refused: {told}"
    assert same(told[1]["output"], results)
    await lab.stopped(worker)


@worker_check("worker-activation/commits-and-forks", cites=["WRK-081", "WRK-082", "WRK-084"], profile="core forks")
async def test_commits_and_forks(lab: WorkerLab) -> None:
    """The worker adds its lease owner to a record or fork, and passes both on as they came."""
    worker = lab.worker()
    attempt = await lab.activation(COMMIT)
    await lab.coordinator.settled(attempt)
    records = [
        {"key": key, "callable": "program:add", "input": {"x": value}, "output": value}
        for key, value in (("a", 1), ("b", 2.0))
    ]
    assert same(lab.coordinator.sent(COMMITS), [{"owner": attempt.owner, "record": record} for record in records])
    forking = await lab.activation(FORK)
    await lab.coordinator.settled(forking)
    assert forking.report["outcome"]["output"]["state"] == ["left", "right"]
    branches: list[dict[str, Any]] = [
        {"key": "left", "entrypoint": "l", "data": {"n": 1.0}, "attempt_timeout_ms": 300_000},
        {"key": "right", "entrypoint": "r", "data": None, "attempt_timeout_ms": 60_000},
    ]
    fork = {"key": "split", "branches": [one | {"queue": "main", "retry_policy": POLICY} for one in branches]}
    assert same(lab.coordinator.sent(FORKS), [{"owner": forking.owner, "fork": fork}])
    await lab.stopped(worker)


@worker_check("worker-activation/lost-acknowledgements", cites=["WRK-078", "WRK-083"], profile="core forks")
async def test_lost_acknowledgements(lab: WorkerLab) -> None:
    """Context, commit and fork are repeated byte by byte while their outcome is unknown; accepted already counts."""
    worker = lab.worker()
    for code, path in ROUTES:
        with lab.case(path):
            lab.coordinator.script(path, losing, *refusing("unavailable"), *refusing("busy"), losing)
            attempt = await lab.activation(code)
            assert (await lab.coordinator.settled(attempt))[0] == "success"
            assert len(set(lab.coordinator.bodies(path)[:5])) == 1
            lab.transcript.exchanges.clear()
    again = replying(lambda command: {"key": command["record"]["key"], "already_accepted": True})
    lab.coordinator.script(COMMITS, again, again)
    assert (await lab.coordinator.settled(await lab.activation(COMMIT)))[0] == "success"
    await lab.stopped(worker)


@worker_check("worker-activation/refusals", cites=["WRK-054", "WRK-080", "RUN-078"], profile="core forks")
async def test_refusals(lab: WorkerLab) -> None:
    """A definite refusal has its kind by its code; no reply reaches the program, and its process is retired."""
    worker = lab.worker()
    for code, path in ROUTES:
        for refusal, kind in REFUSALS.items():
            with lab.case(f"{refusal} of {path}"):
                lab.coordinator.script(path, *refusing(refusal))
                attempt = await lab.activation(code)
                place = ("admission", False) if path == CONTEXTS else ("execution", True)
                assert await lab.coordinator.settled(attempt) == (kind, *place)
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)


@worker_check("worker-activation/wrong-contexts", cites=["WRK-054", "WRK-079"])
async def test_wrong_contexts(lab: WorkerLab) -> None:
    """A context that is not valid, or of something else, is `protocol` in admission."""
    worker = lab.worker()
    changes: list[dict[str, Any]] = [
        {"activation_id": "task_9"},
        {"workflow_id": "wf_2"},
        {"parent_workflow_id": "wf_0", "root_workflow_id": "wf_0"},
        {"v": 2},
        {"revision": -1},
        {"extra": 1},
    ]
    for change in changes:
        with lab.case(repr(change)):
            attempt = await lab.activation("return ctx.complete(1)", **change)
            assert await lab.coordinator.settled(attempt) == ("protocol", "admission", False)
    await lab.stopped(worker)


@worker_check("worker-activation/wrong-receipts", cites=["WRK-084"], profile="core forks")
async def test_wrong_receipts(lab: WorkerLab) -> None:
    """A receipt of another key, or of other branches, is `protocol`; it is neither repeated nor acknowledged."""
    worker = lab.worker()
    for code, path, receipt in (
        (COMMIT, COMMITS, {"key": "other"}),
        (FORK, FORKS, {"key": "other", "branch_keys": ["left", "right"]}),
        (FORK, FORKS, {"key": "split", "branch_keys": ["right", "left"]}),
        (FORK, FORKS, {"key": "split", "branch_keys": ["left"]}),
    ):
        with lab.case(repr(receipt)):
            before = len(lab.coordinator.sent(path))
            lab.coordinator.script(path, replying({**receipt, "already_accepted": False}))
            attempt = await lab.activation(code)
            assert await lab.coordinator.settled(attempt) == ("protocol", "execution", True)
            assert len(lab.coordinator.sent(path)) == before + 1
    await lab.stopped(worker)


@worker_check("worker-activation/permission-ends-first", cites=["WRK-085", "WRK-062", "WRK-036"])
async def test_permission_ends_first(lab: WorkerLab) -> None:
    """A request that is pending when the permission ends gets no acknowledgement; the process is retired."""
    mark = lab.mark("acknowledged")
    lab.coordinator.script(COMMITS, *refusing("unavailable", times=400))
    worker = lab.worker()
    await lab.coordinator.settled(await lab.task("return 0"))  # so that a warm process is there
    code = f"await ctx.local('k', add, x=1)\nopen({str(mark)!r}, 'w')\nreturn ctx.complete(1)"
    attempt = await lab.activation(code)
    attempt.execution_ms = bound("SAFETY_MARGIN_MS") + 1500  # before anybody has asked for it
    assert await lab.coordinator.settled(attempt) == ("timed_out", "execution", True)
    assert len(set(lab.coordinator.bodies(COMMITS))) == 1
    assert not mark.exists()
    lab.coordinator.unscript()
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)


REQUEST = (
    "send(**({'type': 'runtime_request', 'event_id': event['id'], 'attempt_id': event['ldgattemptid'], 'id': 1,"
    " 'operation': 'local_step.commit', 'payload': {'key': 'k', 'callable': 'c', 'input': None, 'output': None}}"
    " | CHANGE))\nimport time\ntime.sleep(60)"
)

FORKING = (
    "{'operation': 'workflow.fork', 'payload': {'key': 'f', 'OTHER': {}, 'branches':"
    " [{'key': 'b', 'entrypoint': 'e', 'queue': 'q', 'data': None}]}}"
)


@worker_check("worker-activation/bad-requests", cites=["RUN-073", "WRK-061", "WRK-082", "WRK-086"])
async def test_bad_requests(lab: WorkerLab) -> None:
    """A request that breaks the table is `protocol`: nothing is done, and the process is retired."""
    worker = lab.worker()
    for change in (
        "{'id': 2}",
        "{'id': 0}",
        "{'id': True}",
        "{'id': 1.0}",
        "{'extra': 1}",
        "{'v': 2}",
        "{'attempt_id': 'other'}",
        "{'operation': 'unknown'}",
        "{'operation': ''}",
        "{'payload': {'key': 'k'}}",
        "{'payload': {'key': 'k', 'callable': 'c', 'input': None, 'output': 'x' * 150000}}",
        "{'operation': 'workflow.fork', 'payload': {'key': 'f', 'branches': []}}",
        FORKING.replace("OTHER", "owner"),
        FORKING.replace("OTHER", "processing_trace"),
    ):
        with lab.case(change):
            attempt = await lab.activation(f"{RAW}\n{REQUEST.replace('CHANGE', change)}")
            assert await lab.coordinator.settled(attempt) == ("protocol", "execution", True)
    assert (lab.coordinator.sent(COMMITS), lab.coordinator.sent(FORKS)) == ([], [])
    await lab.stopped(worker)


@worker_check("worker-activation/runtime-errors", cites=["WRK-060", "RUN-084", "WRK-036"])
async def test_runtime_errors(lab: WorkerLab) -> None:
    """A `runtime_error` is an execution failure `runtime` with its kind before the message; the process is retired."""
    worker = lab.worker()
    attempt = await lab.activation("raise ValueError('broken')")
    assert await lab.coordinator.settled(attempt) == ("runtime", "execution", True)
    assert attempt.report["error"]["message"] == "workflow_error: broken"
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)
