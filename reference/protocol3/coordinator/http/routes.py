"""The route table: path, method, limits, decoder and operation of every route (chapter 03, Routes)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from protocol3.contract.limits import (
    BODY_BYTES,
    CONTEXT_REPLY_BYTES,
    EVENT_BODY_BYTES,
    EVENT_REPLY_BYTES,
    FORK_BODY_BYTES,
    FORK_REPLY_BYTES,
    LOCAL_RESULT_REPLY_BYTES,
    QUERY_BYTES,
    REPLY_BYTES,
    SETTLEMENT_BODY_BYTES,
    TASK_LIST_QUERY_BYTES,
    TASK_PAGE_REPLY_BYTES,
    TASK_STATUS_REPLY_BYTES,
    WORKFLOW_REPLY_BYTES,
)
from protocol3.contract.models.activations import LocalResultCommand
from protocol3.contract.models.common import LeaseOwner, Scope
from protocol3.contract.models.delivery import RenewCommand, SettleCommand
from protocol3.contract.models.forks import ForkCommand
from protocol3.contract.models.sessions import AcquireCommand, ExtendSession, OpenSession
from protocol3.contract.models.tasks import (
    AttemptQuery,
    HistoryQuery,
    SubmitCommand,
    TaskCancel,
    TaskListQuery,
    TaskQuery,
)
from protocol3.contract.models.workflows import EventCommand, WorkflowRef
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import InvalidJson, JsonValue
from protocol3.contract.strict_json import decode as decode_json
from protocol3_spec import member_names


class Scoped(Protocol):
    """A command of a route that is not listed here: it names its scope."""

    @property
    def scope(self) -> Scope: ...


Command: TypeAlias = (
    SubmitCommand
    | TaskListQuery
    | TaskQuery
    | HistoryQuery
    | AttemptQuery
    | TaskCancel
    | OpenSession
    | ExtendSession
    | AcquireCommand
    | RenewCommand
    | SettleCommand
    | LeaseOwner
    | WorkflowRef
    | EventCommand
    | LocalResultCommand
    | ForkCommand
    | Scoped
)
"""What an operation is asked for: the decoded body or query of one of the routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. Limits in bytes: raw body, encoded reply, raw query; 0 where the method has none.

    They are the columns of chapter 03, Routes (JSON-062, JSON-070, TASK-066, DISC-022, LIM-023).

    `decode` makes the command from the raw body of a POST or the raw query of a GET, or raises Refusal.
    `operation` names the method of the operations object that takes the command.
    """

    method: Literal["GET", "POST"]
    path: str
    request_limit: int = 0
    query_limit: int = 0
    reply_limit: int
    decode: Callable[[bytes], Command]
    operation: str


def scope_of(command: Command) -> Scope | None:
    """The scope that a command names; None for the extension of a session, which names none."""
    match command:
        case SubmitCommand():
            return command.input.scope
        case RenewCommand() | SettleCommand() | LocalResultCommand() | ForkCommand():
            return command.owner.scope
        case ExtendSession():
            return None
        case _:
            return command.scope


def waits(command: Command) -> bool:
    """Whether the command is a long poll (DLV-031)."""
    return isinstance(command, AcquireCommand) and command.wait_ms > 0


def _get(
    path: str,
    decode: Callable[[bytes], Command],
    operation: str,
    *,
    query: int = QUERY_BYTES,
    reply: int = REPLY_BYTES,
) -> Route:
    return Route(method="GET", path=path, query_limit=query, reply_limit=reply, decode=decode, operation=operation)


def _post(
    path: str,
    from_json: "Callable[[JsonValue], Command]",
    operation: str,
    *,
    body: int = BODY_BYTES,
    reply: int = REPLY_BYTES,
) -> Route:
    decode = from_body(from_json)
    return Route(method="POST", path=path, request_limit=body, reply_limit=reply, decode=decode, operation=operation)


def from_body(from_json: "Callable[[JsonValue], Command]") -> Callable[[bytes], Command]:
    """Makes the command of a raw body (HTTP-019), or raises Refusal."""

    def decode(raw: bytes) -> Command:
        try:
            document = decode_json(raw)
        except InvalidJson as error:
            ours = error.repeated in member_names()
            raise invalid("body", f"repeated member {error.repeated}" if ours else str(error)) from None
        return from_json(document)

    return decode


ROUTES: Final = (
    # tasks
    _post("/v1/tasks", SubmitCommand.from_json, "submit_task"),
    _get(
        "/v1/tasks",
        TaskListQuery.from_query,
        "list_tasks",
        query=TASK_LIST_QUERY_BYTES,
        reply=TASK_PAGE_REPLY_BYTES,
    ),
    _get("/v1/tasks/inspect", TaskQuery.from_query, "inspect_task"),
    _get("/v1/tasks/status", TaskQuery.from_query, "task_status", reply=TASK_STATUS_REPLY_BYTES),
    _get("/v1/tasks/result", TaskQuery.from_query, "task_result"),
    _get("/v1/tasks/history", HistoryQuery.from_query, "task_history"),
    _get("/v1/attempts/inspect", AttemptQuery.from_query, "inspect_attempt"),
    _post("/v1/tasks/cancel", TaskCancel.from_json, "cancel_task"),
    # delivery
    _post("/v1/worker-sessions", OpenSession.from_json, "open_session"),
    _post("/v1/worker-sessions/extend", ExtendSession.from_json, "extend_session"),
    _post("/v1/acquisitions", AcquireCommand.from_json, "acquire"),
    _post("/v1/renewals", RenewCommand.from_json, "renew"),
    _post("/v1/settlements", SettleCommand.from_json, "settle", body=SETTLEMENT_BODY_BYTES),
    _post("/v1/quiescence-confirmations", LeaseOwner.from_json, "confirm_quiescence"),
    # workflows
    _post("/v1/workflows", SubmitCommand.from_json, "submit_workflow", reply=WORKFLOW_REPLY_BYTES),
    _get("/v1/workflows/status", WorkflowRef.from_query, "workflow_status", reply=WORKFLOW_REPLY_BYTES),
    _get("/v1/workflows/result", WorkflowRef.from_query, "workflow_result"),
    _post("/v1/workflows/cancel", WorkflowRef.from_json, "cancel_workflow", reply=WORKFLOW_REPLY_BYTES),
    _post(
        "/v1/workflows/events",
        EventCommand.from_json,
        "send_event",
        body=EVENT_BODY_BYTES,
        reply=EVENT_REPLY_BYTES,
    ),
    _post("/v1/workflows/activations/context", LeaseOwner.from_json, "activation_context", reply=CONTEXT_REPLY_BYTES),
    _post(
        "/v1/workflows/local-results",
        LocalResultCommand.from_json,
        "commit_local_result",
        reply=LOCAL_RESULT_REPLY_BYTES,
    ),
    _post("/v1/workflows/forks", ForkCommand.from_json, "accept_fork", body=FORK_BODY_BYTES, reply=FORK_REPLY_BYTES),
)
"""Every route of this service. The optional profiles are not declared: their paths are unknown (HTTP-042)."""
