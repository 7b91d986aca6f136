"""CloudEvents in wakes (HLP-047)."""

from __future__ import annotations

import re
from typing import Any

from ._checks import is_plain_text, text
from ._errors import WorkflowError
from ._exact import canonical
from ._limits import ATTRIBUTE_INTEGER_MAX, ATTRIBUTE_INTEGER_MIN, EVENT_SOURCE_BYTES
from ._times import is_time
from ._trace import is_traceparent, is_tracestate
from ._uris import is_absolute_uri, is_uri_reference

_ATTRIBUTE = re.compile(r"[a-z0-9]+")


def check_event(event: object, what: str) -> None:
    """Raise WorkflowError unless this is an external event. Its size is the caller's business."""
    if type(event) is not dict:
        raise WorkflowError(f"{what}: not an object")
    for name, value in event.items():
        if name != "data" and (_ATTRIBUTE.fullmatch(name) is None or not _is_attribute_value(value)):
            raise WorkflowError(f"{what}.{name}: not a CloudEvents attribute")
    _need(event.get("specversion") == "1.0", f"{what}.specversion")
    _need(event.get("datacontenttype") == "application/json", f"{what}.datacontenttype")
    text(event.get("id"), f"{what}.id")
    _need(is_uri_reference(text(event.get("source"), f"{what}.source", EVENT_SOURCE_BYTES)), f"{what}.source")
    _need(_is_filled(event.get("type")), f"{what}.type")
    _need("data" in event, f"{what}.data")
    canonical(event["data"], f"{what}.data")
    _check_optional(event, what)


def _check_optional(event: dict[str, Any], what: str) -> None:
    if "subject" in event:
        _need(_is_filled(event["subject"]), f"{what}.subject")
    if "dataschema" in event:
        _need(_is_filled(event["dataschema"]) and is_absolute_uri(event["dataschema"]), f"{what}.dataschema")
    if "time" in event:
        _need(_is_filled(event["time"]) and is_time(event["time"]), f"{what}.time")
    if "traceparent" in event:
        _need(is_traceparent(event["traceparent"]), f"{what}.traceparent")
    if "tracestate" in event:
        _need("traceparent" in event and is_tracestate(event["tracestate"]), f"{what}.tracestate")


def _is_attribute_value(value: object) -> bool:
    if type(value) is int:
        return ATTRIBUTE_INTEGER_MIN <= value <= ATTRIBUTE_INTEGER_MAX
    return type(value) is bool or is_plain_text(value)


def _is_filled(value: object) -> bool:
    return type(value) is str and value != ""


def _need(held: bool, what: str) -> None:
    if not held:
        raise WorkflowError(f"{what}: missing or malformed")
