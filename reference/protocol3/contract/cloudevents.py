"""CloudEvents of the protocol: the general profile, external events, invocation events (TXT-020…028, DLV-042…046)."""

import re
from typing import Final

from protocol3.contract.application import application_value, too_large
from protocol3.contract.fields import integer
from protocol3.contract.limits import (
    ATTRIBUTE_INTEGER_MAX,
    ATTRIBUTE_INTEGER_MIN,
    EVENT_BYTES,
    EVENT_SOURCE_BYTES,
    ID_BYTES,
    MAX_ATTEMPT_NUMBER,
)
from protocol3.contract.refusal import invalid, unknown
from protocol3.contract.strict_json import JsonValue, compact_size
from protocol3.contract.text import has_forbidden_characters, identifier
from protocol3.contract.timestamps import event_time, time_text
from protocol3.contract.trace import is_traceparent, is_tracestate
from protocol3.contract.uri import is_absolute_uri, is_uri_reference

ORCHESTRATOR: Final = "urn:ledgence:orchestrator"
INVOCATION_TYPE: Final = "com.ledgence.task.invocation.requested.v1"
JSON_CONTENT: Final = "application/json"

_NAME: Final = re.compile("[a-z0-9]+")
_INVOCATION_IDS: Final = ("ldgtenantid", "ldgnamespace", "ldgrunid", "ldgtaskid", "ldgattemptid")
_WORKFLOW_IDS: Final = ("ldgworkflowid", "ldgactivationid", "ldgparentworkflowid", "ldgrootworkflowid")


def external_event(value: JsonValue, at: str) -> dict[str, JsonValue]:
    """A complete external event, returned as it is (TXT-025, TXT-026, JSON-063). Raises Refusal (EVT-024).

    Attributes that look like those of an invocation are plain ones here (TXT-028, EVT-002).
    """
    event = cloud_event(value, at)
    identifier(event["id"], f"{at}.id", ID_BYTES)
    _json_data(event, at)
    application_value(event["data"], f"{at}.data")
    if compact_size(event) > EVENT_BYTES:
        raise too_large(at, EVENT_BYTES)
    return event


def invocation_event(value: JsonValue, at: str) -> dict[str, JsonValue]:
    """An invocation event as a worker receives it, returned as it is (chapter 07, Invocation event). Raises Refusal."""
    event = cloud_event(value, at)
    identifier(event["id"], f"{at}.id", ID_BYTES)
    _json_data(event, at)
    if event["type"] != INVOCATION_TYPE:
        raise invalid(f"{at}.type", f"must be {INVOCATION_TYPE}")
    for name in _INVOCATION_IDS:
        identifier(event.get(name), f"{at}.{name}", ID_BYTES)
    integer(event.get("ldgattemptno"), f"{at}.ldgattemptno", 1, MAX_ATTEMPT_NUMBER)
    _workflow_ids(event, at)
    return event


def new_invocation_event(
    *,
    event_id: str,
    time_ms: int,
    tenant_id: str,
    namespace: str,
    run_id: str,
    task_id: str,
    attempt_id: str,
    attempt_no: int,
    data: JsonValue,
    workflow_id: str | None = None,
    activation_id: str | None = None,
    parent_workflow_id: str | None = None,
    root_workflow_id: str | None = None,
    traceparent: str | None = None,
    tracestate: str | None = None,
) -> dict[str, JsonValue]:
    """The event of one attempt: exactly the attributes of chapter 07, Invocation event (DLV-042, ACT-004, TRC-022)."""
    event: dict[str, JsonValue | None] = {
        "specversion": "1.0",
        "id": event_id,
        "source": ORCHESTRATOR,
        "type": INVOCATION_TYPE,
        "subject": f"tasks/{task_id}",
        "time": event_time(time_ms),
        "datacontenttype": JSON_CONTENT,
        "ldgtenantid": tenant_id,
        "ldgnamespace": namespace,
        "ldgrunid": run_id,
        "ldgtaskid": task_id,
        "ldgattemptid": attempt_id,
        "ldgattemptno": attempt_no,
        "ldgworkflowid": workflow_id,
        "ldgactivationid": activation_id,
        "ldgparentworkflowid": parent_workflow_id,
        "ldgrootworkflowid": root_workflow_id,
        "traceparent": traceparent,
        "tracestate": tracestate,
    }
    return {name: value for name, value in event.items() if value is not None} | {"data": data}


def cloud_event(value: JsonValue, at: str) -> dict[str, JsonValue]:
    """The general profile (DLV-046): attributes, the required ones (TXT-022), URI (TXT-023, TXT-024), time, trace."""
    if not isinstance(value, dict):
        raise invalid(at, "must be an object")
    for name, attribute in value.items():
        if name != "data":
            _attribute(name, attribute, at)
    if value.get("specversion") != "1.0":
        raise invalid(f"{at}.specversion", "must be 1.0")
    for name in ("id", "source", "type"):
        _text(value.get(name), f"{at}.{name}")
    if "subject" in value:
        _text(value["subject"], f"{at}.subject")
    if "time" in value:
        time_text(value["time"], f"{at}.time")
    source = identifier(value["source"], f"{at}.source", EVENT_SOURCE_BYTES)
    if not is_uri_reference(source):
        raise invalid(f"{at}.source", "must be a URI reference")
    if "dataschema" in value and not is_absolute_uri(_text(value["dataschema"], f"{at}.dataschema")):
        raise invalid(f"{at}.dataschema", "must be an absolute URI without fragment")
    _trace(value, at)
    return value


def _attribute(name: str, value: JsonValue, at: str) -> None:
    """TXT-020, TXT-021."""
    if not _NAME.fullmatch(name):
        raise invalid(at, unknown("member", name))
    match value:
        case bool():
            return
        case int() if ATTRIBUTE_INTEGER_MIN <= value <= ATTRIBUTE_INTEGER_MAX:
            return
        case str() if not has_forbidden_characters(value):
            return
    raise invalid(f"{at}.{name}", "must be a string without control characters, a boolean or a 32-bit integer")


def _text(value: JsonValue, at: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(at, "must be a non-empty string")
    return value


def _trace(event: dict[str, JsonValue], at: str) -> None:
    """TXT-027."""
    if "traceparent" in event and not is_traceparent(_text(event["traceparent"], f"{at}.traceparent")):
        raise invalid(f"{at}.traceparent", "must be a version 00 traceparent")
    if "tracestate" in event:
        state = event["tracestate"]
        if "traceparent" not in event or not isinstance(state, str) or not is_tracestate(state):
            raise invalid(f"{at}.tracestate", "must be a tracestate beside a traceparent")


def _json_data(event: dict[str, JsonValue], at: str) -> None:
    """TXT-025."""
    if event.get("datacontenttype") != JSON_CONTENT:
        raise invalid(f"{at}.datacontenttype", f"must be {JSON_CONTENT}")
    if "data" not in event:
        raise invalid(f"{at}.data", "is missing")


def _workflow_ids(event: dict[str, JsonValue], at: str) -> None:
    given = {name: identifier(event[name], f"{at}.{name}", ID_BYTES) for name in _WORKFLOW_IDS if name in event}
    workflow = given.get("ldgworkflowid")
    if given and workflow is None:
        raise invalid(f"{at}.ldgworkflowid", "is missing")
    if "ldgactivationid" in given and given["ldgactivationid"] != event["ldgtaskid"]:
        raise invalid(f"{at}.ldgactivationid", "must equal ldgtaskid")
    lineage = [given[name] for name in ("ldgparentworkflowid", "ldgrootworkflowid") if name in given]
    if len(lineage) == 1 or workflow in lineage:
        raise invalid(f"{at}.ldgparentworkflowid", "needs ldgrootworkflowid, both other than ldgworkflowid")
