"""Replies to a poll and the invocation event."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.cloudevents import invocation_event, new_invocation_event
from protocol3.contract.models.delivery import (
    AcquireAssigned,
    AcquireCommand,
    AcquireEmpty,
    AcquireOwnershipLost,
    acquire_reply_from_json,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import same

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))


def sample(name: str) -> Any:
    return copy.deepcopy(SAMPLES[name]["document"])


def refuse(read: Any, document: Any, place: str) -> None:
    with pytest.raises(Refusal, match=place):
        read(document)


def test_acquire_replies() -> None:
    """DLV-012…014."""
    assigned: dict[str, Any] = {"disposition": "assigned", "sequence": 2, "assignment": sample("assignment")}
    lost: dict[str, Any] = {
        "disposition": "ownership_lost",
        "sequence": 3,
        "assignment": {"task_id": "t", "attempt_id": "a"},
    }
    empty: dict[str, Any] = {"disposition": "empty", "sequence": 1}
    for document, cls in (
        (empty, AcquireEmpty),
        (assigned, AcquireAssigned),
        (lost, AcquireOwnershipLost),
    ):
        reply = acquire_reply_from_json(document)
        assert isinstance(reply, cls)
        assert same(reply.to_json(), document)
    refuse(acquire_reply_from_json, {"disposition": "empty", "sequence": 1, "assignment": None}, "assignment")
    refuse(acquire_reply_from_json, {"disposition": "busy", "sequence": 1}, "disposition")


def test_acquire_leaves_out_a_zero_wait() -> None:
    document = sample("acquire") | {"wait_ms": 0}
    command = AcquireCommand.from_json(document)
    assert "wait_ms" not in command.to_json()
    assert AcquireCommand.from_json(command.to_json()) == command


def test_new_invocation_event() -> None:
    """DLV-042, TRC-022: exactly these attributes, absent ones omitted, data untouched."""
    members: dict[str, Any] = {
        "event_id": "evt_5",
        "time_ms": 1740000000500,
        "tenant_id": "north",
        "namespace": "reports",
        "run_id": "run_7",
        "task_id": "task_7",
        "attempt_id": "att_9",
        "attempt_no": 1,
    }
    plain = new_invocation_event(**members, data=None)
    assert same(
        plain,
        {
            "specversion": "1.0",
            "id": "evt_5",
            "source": "urn:ledgence:orchestrator",
            "type": "com.ledgence.task.invocation.requested.v1",
            "subject": "tasks/task_7",
            "time": "2025-02-19T21:20:00.5Z",
            "datacontenttype": "application/json",
            "ldgtenantid": "north",
            "ldgnamespace": "reports",
            "ldgrunid": "run_7",
            "ldgtaskid": "task_7",
            "ldgattemptid": "att_9",
            "ldgattemptno": 1,
            "data": None,
        },
    )
    assert invocation_event(plain, "event") is plain
    linked = new_invocation_event(
        **members,
        data={"a": 1.0},
        workflow_id="wf_1",
        activation_id="task_7",
        parent_workflow_id="wf_0",
        root_workflow_id="wf_0",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate="a=b",
    )
    assert invocation_event(linked, "event")["ldgrootworkflowid"] == "wf_0"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"type": "other"}, "type"),
        ({"ldgattemptno": 0}, "ldgattemptno"),
        ({"ldgattemptno": 2**31}, "ldgattemptno"),
        ({"ldgtenantid": ""}, "ldgtenantid"),
        ({"ldgactivationid": "task_8"}, "ldgactivationid"),
        ({"ldgrootworkflowid": "wf_1"}, "ldgparentworkflowid"),
        ({"id": "x" * 129}, "id"),
        ({"source": "a b"}, "source"),
        ({"tracestate": "a"}, "tracestate"),
        ({"subject": ""}, "subject"),
    ],
)
def test_invocation_event_rules(change: dict[str, Any], place: str) -> None:
    """Chapter 07, Invocation event, DLV-046."""
    event = sample("assignment")["event"] | change
    refuse(lambda document: invocation_event(document, "event"), event, place)


@pytest.mark.parametrize("missing", ["ldgworkflowid", "ldgparentworkflowid", "ldgrootworkflowid", "data", "type"])
def test_invocation_event_needs(missing: str) -> None:
    event = sample("assignment")["event"]
    del event[missing]
    refuse(lambda document: invocation_event(document, "event"), event, r"event\.(ldg|data|type)")
