"""TST-002: the routes of /testing/v1. They are exchanges like others: strict JSON, error objects, budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from protocol3.contract.limits import BODY_BYTES, QUERY_BYTES, REPLY_BYTES
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.controls.clock import Advance, ScopeQuery
from protocol3.coordinator.controls.rules import AddFault, Pick
from protocol3.coordinator.http.routes import Command, Route, from_body


def _get(path: str, operation: str) -> Route:
    decode = ScopeQuery.from_query
    return Route(
        method="GET", path=path, query_limit=QUERY_BYTES, reply_limit=REPLY_BYTES, decode=decode, operation=operation
    )


def _post(path: str, from_json: Callable[[JsonValue], Command], operation: str) -> Route:
    decode = from_body(from_json)
    return Route(
        method="POST", path=path, request_limit=BODY_BYTES, reply_limit=REPLY_BYTES, decode=decode, operation=operation
    )


CONTROL_ROUTES: Final = (
    _get("/testing/v1/clock", "read_clock"),
    _post("/testing/v1/clock", Advance.from_json, "advance_clock"),
    _get("/testing/v1/faults", "list_faults"),
    _post("/testing/v1/faults", AddFault.from_json, "add_fault"),
    _post("/testing/v1/faults/release", Pick.from_json, "release_faults"),
    _post("/testing/v1/faults/clear", Pick.from_json, "clear_faults"),
)
