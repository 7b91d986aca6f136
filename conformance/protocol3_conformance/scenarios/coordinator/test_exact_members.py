"""Receipts, contexts, results and wakes to the last member, and values that must come back untouched."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import compact_size, encode, same

HOUR = 3_600_000


@scenario("members/context", cites=["ACT-049", "ACT-001", "WF-034", "LOC-013", "LOC-012", "TRC-022"])
async def test_context(lab: Lab) -> None:
    """Snapshot, context and local receipt have exactly their members; a helper's key prefixes mean nothing here."""
    workflow = await lab.client.workflow(correlation_key="c")
    assert workflow == {
        "workflow_id": workflow["workflow_id"],
        "scope": lab.scope,
        "state": "running",
        "revision": 0,
        "activation_id": workflow["activation_id"],
        "submitted_at": workflow["submitted_at"],
        "terminal_at": None,
        "correlation_key": "c",
    }
    activation = await (await lab.worker()).activation()
    assert activation.event["ldgworkflowid"] == workflow["workflow_id"]
    assert activation.event["ldgactivationid"] == activation.task_id
    assert not {"ldgparentworkflowid", "ldgrootworkflowid"} & set(activation.event)
    for key in ("$model:1", "ledgence.tool/2", "approved:3", "ready:0"):
        assert (await activation.local(key, key)).accepted() == {"key": key, "already_accepted": False}
        assert (await activation.local(key, key)).accepted() == {"key": key, "already_accepted": True}
    context = (await activation.context()).accepted()
    journal = [
        {"key": key, "callable": "conformance:step", "input": None, "output": key}
        for key in sorted(("$model:1", "ledgence.tool/2", "approved:3", "ready:0"), key=str.encode)
    ]
    assert same(
        context,
        {
            "v": 1,
            "workflow_id": workflow["workflow_id"],
            "activation_id": activation.task_id,
            "revision": 0,
            "continuation": activation.frozen["continuation"],
            "state": activation.frozen["state"],
            "inputs": {},
            "local_steps": journal,
        },
    )


@scenario("members/wakes", cites=["TMR-024", "EVT-023", "TXT-033", "EVT-001"])
async def test_wakes(lab: Lab) -> None:
    """Event receipt and wakes have exactly their members; the source of an event is a text that nobody normalizes."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    event = lab.client.event(source="HTTP://EXAMPLE.org:80/a/../b%2fc%41", data={"data": [1.0]})
    receipt = (await lab.client.send_event(workflow_id, "go", event)).accepted()
    assert receipt == {
        "scope": lab.scope,
        "workflow_id": workflow_id,
        "key": "go",
        "event_id": event["id"],
        "event_source": event["source"],
        "accepted_at": receipt["accepted_at"],
        "already_accepted": False,
    }
    await (await worker.activation()).wait_event("go")
    second = await worker.activation()
    at = receipt["accepted_at"]
    assert same(second.frozen["wake"], {"kind": "event", "key": "go", "event": event, "accepted_at": at})
    await second.wait_event("nobody", 0)
    third = await worker.activation()
    wake = third.frozen["wake"]
    assert wake == {"kind": "timeout", "key": "nobody", "deadline": wake["deadline"]}
    await third.wait_timer("nap", 0)
    wake = (await worker.activation()).frozen["wake"]
    assert wake == {"kind": "timer", "key": "nap", "deadline": wake["deadline"]}


@scenario("members/child-results", cites=["CHD-060", "CHD-040", "TASK-216", "TASK-217", "TASK-218"])
async def test_child_results(lab: Lab) -> None:
    """Results of child tasks have exactly the members of their outcome."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.suspend("a", "b", "c", commands=[first.command(key, data=key) for key in "abc"])
    claims = {claim.event["data"]: claim for claim in [await children.running() for _ in "abc"]}
    await claims["a"].succeed({"n": 1.0})
    (await claims["b"].settle(claims["b"].failure("no", "reason"))).accepted()
    await lab.client.cancel_task(claims["c"].task_id)
    await claims["c"].succeed()
    inputs = (await worker.activation()).frozen["inputs"]
    common = {
        key: {"attempt_id": claim.attempt_id, "quiescence": "confirmed", "execution_may_have_started": True}
        for key, claim in claims.items()
    }
    failure = {"kind": "application", "error": {"kind": "no", "message": "reason"}}
    outcomes: dict[str, dict[str, Any]] = {
        "a": {"kind": "succeeded", **common["a"], "output": {"n": 1.0}},
        "b": {"kind": "failed", **common["b"], "failure": failure},
        "c": {"kind": "cancelled"},
    }
    for key, outcome in outcomes.items():
        with lab.case(key):
            wanted = {"task_id": claims[key].task_id, "state": outcome["kind"], "outcome": outcome}
            assert same(inputs[key], wanted)
    assert set(inputs) == set("abc")


@scenario("members/subworkflow-results", cites=["CHD-060", "CHD-041", "TRC-022", "WF-032"], profile="core subworkflows")
async def test_subworkflow_results(lab: Lab) -> None:
    """Results of owned workflows have exactly their members; their work names itself, its parent and its root."""
    root = (await lab.client.workflow())["workflow_id"]
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.suspend("a", "b", "c", commands=[first.command(key, kind="workflow", data=key) for key in "abc"])
    flows = {flow.event["data"]: flow for flow in [await children.activation() for _ in "abc"]}
    for flow in flows.values():
        event = flow.event
        assert (event["ldgparentworkflowid"], event["ldgrootworkflowid"]) == (root, root)
        assert (event["ldgworkflowid"], event["ldgactivationid"]) == (flow.workflow_id, flow.task_id)
    await flows["a"].complete([1])
    await flows["b"].fail("no", "reason")
    await lab.client.cancel_workflow(flows["c"].workflow_id)
    await flows["c"].break_down()
    inputs = (await worker.activation()).frozen["inputs"]
    outcomes: dict[str, dict[str, Any]] = {
        "a": {"kind": "succeeded", "output": [1]},
        "b": {"kind": "failed", "error": {"kind": "no", "message": "reason"}},
        "c": {"kind": "cancelled"},
    }
    for key, outcome in outcomes.items():
        with lab.case(key):
            state = {"workflow_id": flows[key].workflow_id, "state": outcome["kind"], "outcome": outcome}
            assert same(inputs[key], {"kind": "workflow", **state})


@scenario("members/fork-receipt", cites=["FRK-022"], profile="core forks")
async def test_fork_receipt(lab: Lab) -> None:
    """The receipt of a fork has exactly its members, and the keys in the order of the request."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    branches = [activation.branch(key, queue=lab.child_queue) for key in ("z", "a", "m")]
    for known in (False, True):
        receipt = (await activation.fork("f", branches)).accepted()
        assert receipt == {"key": "f", "branch_keys": ["z", "a", "m"], "already_accepted": known}


@scenario("members/unknown-child-kinds", cites=["CHD-059", "DEC-040", "DEC-041"])
async def test_unknown_child_kinds(lab: Lab) -> None:
    """A child command whose kind is null or unknown makes the decision invalid."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for kind in (None, "", "Task", "approval", 1):
        with lab.case(repr(kind)):
            workflow_id = (await lab.client.workflow())["workflow_id"]
            activation = await worker.activation()
            await activation.go_on(commands=[activation.command("c") | {"kind": kind}])
            outcome = await lab.client.outcome_until(workflow_id, "failed")
            assert outcome["error"]["kind"] == "decision_invalid"
            assert (await lab.client.workflow_status(workflow_id)).accepted()["revision"] == 0
            await children.nothing()


@scenario("members/public-key-space", cites=["WF-012", "TASK-043", "WF-011"], profile="core subworkflows")
async def test_public_key_space(lab: Lab) -> None:
    """No public key reaches an owned child, and identifiers are given once."""
    root = (await lab.client.workflow())["workflow_id"]
    first = await (await lab.worker()).activation()
    commands = [first.command("flow", kind="workflow"), first.command("task")]
    await first.go_on(commands=commands)
    children = await lab.worker(queue=lab.child_queue)
    owned = [await children.claim() for _ in commands]
    flow = next(claim.event["ldgworkflowid"] for claim in owned if claim.event.get("ldgactivationid"))
    seen = {root, flow, first.task_id, first.attempt_id, *(claim.task_id for claim in owned)}
    assert len(seen) == 6, "an identifier was given twice"
    for key in ("flow", "task", flow, f"{root}:flow", f"{root}/flow", owned[0].task_id):
        with lab.case(key):
            workflow = (await lab.client.submit_workflow(key=key)).accepted()
            task = (await lab.client.submit_task(key=key)).accepted()
            assert "parent_workflow_id" not in workflow
            fresh = {workflow["workflow_id"], workflow["activation_id"], task["task_id"], task["run_id"]}
            assert len(fresh) == 4
            assert not fresh & seen
            seen |= fresh


@scenario("members/names-and-zeros", cites=["JSON-008", "JSON-022", "JSON-084", "JSON-044"])
async def test_names_and_zeros(lab: Lab) -> None:
    """A name may stand in several objects of one document, `-0` is the float -0.0, and escapes make no difference."""
    template = lab.client.submission(data="DATA")

    async def submit(data: bytes) -> Any:
        return await lab.client.post("/v1/tasks", encode(template).replace(b'"DATA"', data))

    first = (await submit(b'{"data":{"data":[-0.0,"/\xc3\xa9"]},"input":{"data":1},"code":0}')).accepted()
    again = (await submit(b'{"code":0,"input":{"data":1},"data":{"data":[-0,"\\/\\u00e9"]}}')).accepted()
    assert same(again, first)
    (await submit(b'{"data":{"data":[0,"/\xc3\xa9"]},"input":{"data":1},"code":0}')).refused("conflict")
    claim = await (await lab.worker()).claim()
    assert same(claim.event["data"], {"data": {"data": [-0.0, "/é"]}, "input": {"data": 1}, "code": 0})


@scenario(
    "members/longest-statuses",
    cites=["TASK-059", "DISC-022", "DISC-025", "DISC-027", "HTTP-056"],
    profile="core discovery",
)
async def test_longest_statuses(lab: Lab) -> None:
    """A full page of statuses with the longest texts is served within its bound, a shorter one without a limit."""
    queue = f"{lab.queue}:".ljust(bound("ID_BYTES"), '"')
    correlation = lab.unique('"').ljust(bound("CORRELATION_KEY_BYTES"), '"')
    many = bound("TASK_PAGE")
    tasks = [lab.client.task(queue=queue, correlation_key=correlation) for _ in range(many + 1)]
    ids = {task["task_id"] for task in await asyncio.gather(*tasks)}
    status = (await lab.client.status(next(iter(ids)))).accepted()
    assert (status["queue"], status["correlation_key"]) == (queue, correlation)
    page = (await lab.client.list_tasks(correlation_key=correlation, limit=str(many))).accepted()
    assert set(page) == {"items", "next_cursor"}
    assert len(page["items"]) == many
    assert {item["task_id"] for item in page["items"]} < ids
    usual = (await lab.client.list_tasks(correlation_key=correlation)).accepted()
    assert same(usual["items"], page["items"][: bound("DEFAULT_TASK_PAGE")])


@scenario("members/fullest-context", cites=["LIM-022", "LIM-020", "CHD-056", "LIM-012", "LIM-013"])
async def test_fullest_context(lab: Lab) -> None:
    """State, inputs and journal at their bounds at the same time make a context that can be read."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    state = "s" * (bound("STATE_BYTES") - 2)
    keys = [f"k{number}" for number in range(4)]
    await first.suspend(*keys, state=state, commands=[first.command(key) for key in keys])
    for _ in keys:
        await (await children.running()).succeed("o" * (bound("INPUTS_BYTES") // len(keys) - 600))
    second = await worker.activation()
    assert set(second.frozen["inputs"]) == set(keys)
    empty = compact_size({"key": "a", "callable": "conformance:step", "input": None, "output": ""})
    output = "j" * (bound("LOCAL_LEDGER_BYTES") // 2 - empty - 2)
    for key in "ab":
        (await second.local(key, output)).accepted()
    (await second.local("c", None)).refused("invalid_input")
    context = (await second.context()).accepted()
    assert compact_size(context) > bound("CONTEXT_BYTES") * 8 // 10, "the parts are not near their bounds"
    assert [entry["output"] for entry in context["local_steps"]] == [output, output]
    assert context["state"] == state


@scenario("members/kept", cites=["DLV-310", "DLV-312", "TASK-104", "DLV-075"], profile="core virtual-time")
async def test_kept(lab: Lab) -> None:
    """For ninety days an ended task, its receipts and its key stay; a live session's cursor is kept with it."""
    command = lab.client.submission()
    task = (await lab.client.post("/v1/tasks", command)).accepted()
    worker = await lab.worker()
    claim = await worker.running()
    report = claim.success("kept")
    first = (await claim.settle(report)).accepted()
    ended = (await lab.client.result(task["task_id"])).accepted()
    day, held = 24 * HOUR, worker.sequences[0]
    for days in (1, bound("RETENTION_DAYS") - 2):
        await lab.controls.advance(days * day, leases="hold")
        assert (await worker.acquire(held)).accepted()["disposition"] == "ownership_lost"
        assert same((await lab.client.result(task["task_id"])).accepted(), ended)
        assert (await lab.client.post("/v1/tasks", command)).accepted()["task_id"] == task["task_id"]
        assert (await claim.settle(report)).accepted() == {**first, "already_accepted": True}
        assert len((await lab.client.history(task["task_id"])).accepted()) == 5
