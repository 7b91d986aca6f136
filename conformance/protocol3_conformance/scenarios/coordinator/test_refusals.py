"""Every error code once for the right reason and with nothing changed: `refusals/CODE`, or `refusals/CODE-STATUS`.

Each check is refused with code and status while everything that could have changed is read before and after
(`unchanged`), and then sends the command that is right.
"""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.controls import FAIL
from protocol3_conformance.roles.views import unchanged
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import RETRIED, begun, waiting
from protocol3_conformance.wire.strict_json import encode, same

CANCEL, SETTLE = "/v1/tasks/cancel", "/v1/settlements"


@scenario("refusals/invalid-input-400", cites=["HTTP-064", "HTTP-066", "TASK-016", "DLV-070"])
async def test_invalid_input_400(lab: Lab) -> None:
    """A command that breaks a rule is 400/`invalid_input` and has no effect on task, attempt, workflow or journal."""
    worker, activation = await begun(lab)
    task = await lab.client.task()
    claim = await worker.running()
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[claim, activation]):
        (await claim.settle({**claim.success(), "quiescence": "perhaps"})).refused("invalid_input", 400)
        (await claim.renew("perhaps")).refused("invalid_input", 400)
        (await activation.local("")).refused("invalid_input", 400)
        (await lab.client.send_event(activation.workflow_id, "", lab.client.event())).refused("invalid_input", 400)
        (await lab.client.cancel_task("")).refused("invalid_input", 400)
        (await lab.client.cancel_workflow("")).refused("invalid_input", 400)
        (await lab.client.submit_task(key=task["idempotency_key"], queue="")).refused("invalid_input", 400)
    assert (await claim.succeed())["already_accepted"] is False


@scenario("refusals/invalid-input-413", cites=["HTTP-017", "HTTP-064", "HTTP-066", "TASK-016", "JSON-062"])
async def test_invalid_input_413(lab: Lab) -> None:
    """A body above its route's limit is 413/`invalid_input`, and the command in it, right as it is, has no effect."""
    _, activation = await begun(lab)
    task_id = (await lab.client.task())["task_id"]
    commands = {
        (CANCEL, "BODY_BYTES"): {"scope": lab.scope, "task_id": task_id},
        ("/v1/workflows/events", "EVENT_BODY_BYTES"): {
            "scope": lab.scope,
            "workflow_id": activation.workflow_id,
            "key": "go",
            "event": lab.client.event(),
        },
    }
    async with unchanged(lab.client, tasks=[task_id], workflows=[activation.workflow_id], claims=[activation]):
        for (path, limit), command in commands.items():
            body = encode(command)
            (await lab.client.post(path, body.ljust(bound(limit) + 1))).refused("invalid_input", 413)
    for (path, limit), command in commands.items():
        (await lab.client.post(path, encode(command).ljust(bound(limit)))).accepted()


@scenario("refusals/invalid-input-415", cites=["HTTP-064", "HTTP-066", "TASK-016"])
async def test_invalid_input_415(lab: Lab) -> None:
    """A command with a foreign media type or encoding is 415/`invalid_input` and has no effect."""
    task_id = (await lab.client.task())["task_id"]
    body = encode({"scope": lab.scope, "task_id": task_id})
    length = ("Content-Length", str(len(body)))
    right = ("Content-Type", "application/json")
    async with unchanged(lab.client, tasks=[task_id]):
        for headers in (
            [length],
            [length, ("Content-Type", "text/plain")],
            [length, right, ("Content-Encoding", "gzip")],
        ):
            answer = Answer(await lab.peer.send("POST", CANCEL, body, headers=headers))
            answer.refused("invalid_input", 415)
    assert Answer(await lab.peer.send("POST", CANCEL, body, headers=[length, right])).accepted() == "cancelled"


@scenario("refusals/not-found", cites=["HTTP-064", "HTTP-066", "TASK-121", "TASK-102", "TASK-016"])
async def test_not_found(lab: Lab) -> None:
    """What is absent is 404/`not_found`; nothing is made of it, and what is there stays as it is."""
    _, activation = await begun(lab)
    worker = await lab.worker(queue=lab.child_queue)
    await lab.client.task(queue=lab.child_queue)
    claim = await worker.running()
    absent, key = lab.unique("absent"), lab.unique("key")
    unknown = {"id": "no-such-program", "version": "9.9.9"}
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[claim, activation]):
        (await lab.client.cancel_task(absent)).refused("not_found")
        (await lab.client.cancel_workflow(absent)).refused("not_found")
        (await lab.client.send_event(absent, "go", lab.client.event())).refused("not_found")
        (await claim.settle({**claim.success(), "owner": {**claim.owner, "attempt_id": absent}})).refused("not_found")
        (await lab.client.submit_task(key=key, program=unknown)).refused("not_found")
    assert (await lab.client.task(key=key, queue=lab.child_queue))["state"] == "queued"
    await worker.claim()
    await worker.nothing()


@scenario("refusals/unknown-session", cites=["HTTP-064", "HTTP-066", "DLV-005", "DLV-018", "TASK-016"])
async def test_unknown_session(lab: Lab) -> None:
    """A session that was never issued is 404/`unknown_session`: it gets no task and its name no cursor."""
    task = await lab.client.task()
    worker = await lab.worker()
    absent = lab.unique("ws")
    async with unchanged(lab.client, tasks=[task["task_id"]]):
        (await worker.acquire(1, worker_session_id=absent)).refused("unknown_session")
        (await lab.client.post("/v1/worker-sessions/extend", {"worker_session_id": absent})).refused("unknown_session")
    assert (await worker.claim()).task_id == task["task_id"]


@scenario("refusals/conflict", cites=["HTTP-064", "HTTP-066", "TASK-105", "DLV-070", "LOC-003", "EVT-010", "TASK-016"])
async def test_conflict(lab: Lab) -> None:
    """Other content under a bound identity is 409/`conflict`; the first content stays and can still be repeated."""
    key = lab.unique("key")
    worker, activation = await begun(lab, key=key)
    task = await lab.client.task(key=key, data=1)
    claim = await worker.running()
    await claim.succeed("kept")
    (await activation.local("step", 1)).accepted()
    event = lab.client.event()
    (await lab.client.send_event(activation.workflow_id, "go", event)).accepted()
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[claim, activation]):
        (await lab.client.submit_task(key=key, data=2)).refused("conflict")
        (await lab.client.submit_workflow(key=key, data=2)).refused("conflict")
        (await claim.settle(claim.success("other"))).refused("conflict")
        (await activation.local("step", 2)).refused("conflict")
        (await lab.client.send_event(activation.workflow_id, "go", lab.client.event())).refused("conflict")
    assert (await lab.client.task(key=key, data=1))["task_id"] == task["task_id"]
    assert (await claim.succeed("kept"))["already_accepted"] is True
    assert (await activation.local("step", 1)).accepted()["already_accepted"] is True
    assert (await lab.client.send_event(activation.workflow_id, "go", event)).accepted()["already_accepted"] is True


@scenario("refusals/ownership-lost", cites=["HTTP-064", "HTTP-066", "DLV-054", "DLV-077", "LOC-006", "TASK-016"])
async def test_ownership_lost(lab: Lab) -> None:
    """Whoever does not hold the lease is 409/`ownership_lost` with every command, and changes nothing by any."""
    _, activation = await begun(lab, retry_policy=RETRIED)
    lease_id = lab.unique("lease")
    stranger = {**activation.owner, "lease_id": lease_id}
    record = {"key": "step", "callable": "conformance:step", "input": None, "output": None}
    async with unchanged(lab.client, workflows=[activation.workflow_id], claims=[activation]):
        (await activation.renew("keep_alive", lease_id=lease_id)).refused("ownership_lost")
        (await activation.context(lease_id=lease_id)).refused("ownership_lost")
        (await activation.confirm(lease_id=lease_id)).refused("ownership_lost")
        settlement = activation.success(activation.decision("complete", output=None))
        (await activation.settle({**settlement, "owner": stranger})).refused("ownership_lost")
        command = {"owner": stranger, "record": record}
        (await lab.client.post("/v1/workflows/local-results", command)).refused("ownership_lost")
    await activation.complete("by its owner")
    assert (await lab.client.outcome_until(activation.workflow_id, "succeeded"))["output"] == "by its owner"


@scenario("refusals/obsolete-operation", cites=["HTTP-064", "HTTP-066", "DLV-012", "EVT-012", "TMR-003", "TASK-016"])
async def test_obsolete_operation(lab: Lab) -> None:
    """A superseded sequence, and an event for what is closed, are 409/`obsolete_operation` and change nothing."""
    _, first = await begun(lab)
    await first.wait_timer("nap", 3_600_000)
    await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)
    task = await lab.client.task()
    worker = await lab.worker(queue=lab.child_queue)
    for _ in range(2):
        await worker.poll(0)
    async with unchanged(lab.client, tasks=[task["task_id"]], workflows=[first.workflow_id]):
        (await worker.acquire(1)).refused("obsolete_operation")
        (await lab.client.send_event(first.workflow_id, "nap", lab.client.event())).refused("obsolete_operation")
    assert (await worker.acquire(2)).accepted()["disposition"] == "empty", "the cursor moved"
    assert (await worker.acquire(3)).accepted()["disposition"] == "empty"


@scenario("refusals/out-of-order", cites=["HTTP-064", "HTTP-066", "DLV-018", "DLV-012", "TASK-016"])
async def test_out_of_order(lab: Lab) -> None:
    """A sequence that leaves a gap is 409/`out_of_order`: it claims nothing, renews nothing, moves no cursor."""
    await lab.client.task()
    worker = await lab.worker()
    claim = await worker.running()
    task = await lab.client.task()
    async with unchanged(lab.client, tasks=[task["task_id"]], claims=[claim]):
        (await worker.acquire(2, worker.idle[0])).refused("out_of_order")
        (await claim.renew("keep_alive", sequence=claim.renewed + 2)).refused("out_of_order")
    (await claim.renew("keep_alive")).accepted()
    assert (await worker.claim()).task_id == task["task_id"]


@scenario("refusals/busy", cites=["HTTP-064", "HTTP-066", "DLV-016", "DLV-018", "EVT-018", "ERR-011", "TASK-016"])
async def test_busy(lab: Lab) -> None:
    """A consumer that holds a live attempt is 409/`busy`, a full inbox too: nothing is claimed, nothing kept."""
    _, stuffed = await waiting(lab)
    # Before the claim: on a slow target the inbox takes longer to fill than a lease lasts.
    for number in range(bound("INBOX_EVENTS")):
        (await lab.client.send_event(stuffed.workflow_id, f"k{number}", lab.client.event())).accepted()
    await lab.client.task()
    worker = await lab.worker()
    claim = await worker.running(0)
    task = await lab.client.task()
    event = lab.client.event()
    async with unchanged(lab.client, tasks=[task["task_id"]], workflows=[stuffed.workflow_id], claims=[claim]):
        (await worker.acquire(2, 0)).refused("busy")
        (await lab.client.send_event(stuffed.workflow_id, "extra", event)).refused("busy")
    await claim.succeed()
    assert (await worker.claim(0)).task_id == task["task_id"]


@scenario(
    "refusals/session-expired", cites=["HTTP-064", "HTTP-066", "DLV-005", "TASK-016"], profile="core virtual-time"
)
async def test_session_expired(lab: Lab) -> None:
    """A session whose time is over is 410/`session_expired`: it claims nothing more and cannot be extended."""
    worker = await lab.worker()
    task = await lab.client.task()
    await lab.controls.advance(bound("SESSION_VALIDITY_MS"))
    extension = {"worker_session_id": worker.session["id"]}
    async with unchanged(lab.client, tasks=[task["task_id"]]):
        (await worker.acquire(1)).refused("session_expired")
        (await lab.client.post("/v1/worker-sessions/extend", extension)).refused("session_expired")
    assert (await (await lab.worker()).claim()).task_id == task["task_id"]


@scenario(
    "refusals/unavailable",
    cites=["HTTP-064", "HTTP-066", "HTTP-067", "HTTP-068", "TASK-021", "TASK-102", "TASK-109"],
    profile="core faults",
)
async def test_unavailable(lab: Lab) -> None:
    """What fails before its commit is 503/`unavailable` with nothing changed; the identical command then does it."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    command = claim.success("once")
    await lab.controls.rule(SETTLE, FAIL, "locked")
    async with unchanged(lab.client, claims=[claim]):
        (await claim.settle(command)).refused("unavailable")
    assert (await claim.settle(command)).accepted()["already_accepted"] is False
    key = lab.unique("key")
    await lab.controls.rule("program.resolve", FAIL, times=None)
    (await lab.client.submit_task(key=key)).refused("unavailable")
    await lab.controls.clear()
    task = await lab.client.task(key=key)
    await lab.controls.rule("program.resolve", FAIL, times=None)
    assert same(await lab.client.task(key=key), task), "a repetition needs no program store"


@scenario("refusals/transport", cites=["HTTP-010", "HTTP-011", "HTTP-064", "HTTP-066", "HTTP-070"])
async def test_transport(lab: Lab) -> None:
    """A right command on a wrong path is 404/`route_not_found`, by a wrong method 405/`method_not_allowed`: undone."""
    task_id = (await lab.client.task())["task_id"]
    command = {"scope": lab.scope, "task_id": task_id}
    async with unchanged(lab.client, tasks=[task_id]):
        (await lab.client.post(f"{CANCEL}/", command)).refused("route_not_found")
        for method in ("PUT", "PATCH", "DELETE"):
            body = encode(command)
            headers = lab.peer.standard_headers("POST", body)
            Answer(await lab.peer.send(method, CANCEL, body, headers=headers)).refused("method_not_allowed")
    assert (await lab.client.post(CANCEL, command)).accepted() == "cancelled"
