"""The handlers shown in the chapter on the helper API run, and do what the chapter says beside them."""

import json
import re
from pathlib import Path

import pytest

from protocol3_spec.validation import problems

CHAPTER = (Path(__file__).parents[3] / "spec/23-helper.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", CHAPTER, re.DOTALL | re.MULTILINE)
SHOWN = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", CHAPTER, re.DOTALL | re.MULTILINE)]


def example(saying):
    (found,) = [text for text in EXAMPLES if saying in text]
    return found


@pytest.fixture
def start(hosts, package):
    return lambda saying, **settings: hosts(package(example(saying)), **settings).ready()


@pytest.fixture
def decided(activation):
    """The decision of one activation, valid by its schema, which has no approvals."""

    def decision(host, data=None, **payload):
        result = host.invoke(data, payload=activation(**payload))
        assert result["status"] == "success", (result, host.stderr())
        output = result["output"]
        if output.get("wait", {}).get("kind") != "approval":
            assert problems("decision", output) == []
        return output

    return decision


def succeeded(output, **more):
    return {
        "task_id": "t",
        "state": "succeeded",
        "outcome": {
            "kind": "succeeded",
            "attempt_id": "a",
            "quiescence": "confirmed",
            "execution_may_have_started": True,
            "output": output,
        },
    } | more


def test_an_ordinary_task(start):
    host = start("current_invocation", protocol=2)
    assert host.invoke({"name": "Ada"})["output"] == {"greeting": "Hello, Ada"}
    log = host.logs[0] if host.logs else host.any_frame()  # results may overtake logs (RUN-101)
    assert log["attributes"] == {"attempt": 1}


def test_a_workflow_that_waits_for_an_event(start, decided):
    """Its first decision is the one that the chapter shows."""
    host = start("orders.build()")
    (shown,) = [one for one in SHOWN if one.get("kind") == "wait"]
    assert decided(host, {"item": "book"}) | {"activation_id": shown["activation_id"]} == shown
    resumed = {"revision": 1, "continuation": "paid", "state": {"quote": 12}}
    timeout = decided(host, wake={"kind": "timeout", "key": "payment", "deadline": 1}, **resumed)
    assert timeout["error"]["kind"] == "unpaid"
    event = {"specversion": "1.0", "id": "e", "source": "urn:s", "type": "t", "datacontenttype": "application/json"}
    wake = {"kind": "event", "key": "payment", "event": event | {"data": None}, "accepted_at": 1}
    assert decided(host, wake=wake, **resumed)["output"] == {"paid": 12}


def test_local_work_and_an_operation(start, decided):
    """The operation's record is the one that the chapter shows."""
    host = start("OperationKind")
    assert decided(host, {"day": 2})["output"] == {"value": 107.0}
    (shown,) = [one for one in SHOWN if one.get("key") == "stock"]
    assert shown in [request["payload"] for request in host.requests]


def test_a_child(start, decided):
    host = start('ctx.task("report"')
    staged = decided(host)
    assert (staged["until"], [command["key"] for command in staged["commands"]]) == (["report"], ["report"])
    inputs = {"report": succeeded({"rows": 12})}
    assert decided(host, revision=1, continuation="sent", inputs=inputs)["output"] == {"rows": 12}


def test_a_fork(start, decided):
    host = start("mean.build()")
    joined = decided(host, [1, 2, 6])
    assert (joined["until"], joined["state"]) == (["half:0", "half:1"], 3)
    assert decided(host, [1, 6], continuation="half")["output"] == 7
    halves = {
        f"half:{n}": {"kind": "workflow", "workflow_id": f"w{n}", "state": "succeeded"}
        | {"outcome": {"kind": "succeeded", "output": total}}
        for n, total in enumerate((7, 2))
    }
    assert decided(host, revision=1, continuation="joined", state=3, inputs=halves)["output"] == 3.0


@pytest.mark.parametrize("status", ["approved", "rejected"])
def test_an_approval(start, decided, status):
    host = start("request_approval")
    wait = decided(host, {"order": "o1"})["wait"]
    assert wait["action"]["arguments"] == {"order": "o1", "eur": 40}
    decision = {"approved": "approve", "rejected": "reject"}[status]
    approval = {
        "scope": {"tenant_id": "t", "namespace": "n"},
        "workflow_id": "wf",
        "key": "refund",
        "activation_id": "before",
        "revision": 0,
        "action": wait["action"],
        "proposed_arguments": None,
        "created_at": 100,
        "deadline": 200,
        "status": status,
        "decision": {"decision_id": "d", "decision": decision, "reviewer": "r", "reason": None, "decided_at": 150},
        "resumed_activation_id": "act",
    }
    ended = decided(host, revision=1, continuation="decided", wake={"kind": "approval", "approval": approval})
    if status == "approved":
        assert ended["output"] == {"order": "o1", "refunded": 40}
    else:
        assert ended["error"] == {"kind": "not_approved", "message": "rejected"}


def test_no_example_is_left_out():
    assert len(EXAMPLES) == 6
