"""Decisions: building them, and the check of what the handler returned (HLP-117 … HLP-125)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._approval_objects import check_arguments, encode_action
from ._checks import fields, integer, members, text
from ._children import encode_command
from ._errors import WorkflowError
from ._exact import canonical
from ._limits import (
    COMMANDS,
    DATA_DEPTH,
    DECISION_BYTES,
    INTEGER_MAX,
    MAX_WAIT_DURATION_MS,
    PROPOSED_ARGUMENTS_BYTES,
    RUNTIME_DEPTH,
    STATE_BYTES,
    UNTIL_KEYS,
)
from ._outcomes import check_error

_COMMON = members("v activation_id revision kind")
_CHECKPOINT = members("continuation state commands")
_KINDS = {
    "suspend": _COMMON | _CHECKPOINT | {"until"},
    "continue": _COMMON | _CHECKPOINT,
    "wait": _COMMON | _CHECKPOINT | {"wait"},
    "complete": _COMMON | {"output"},
    "fail": _COMMON | {"error"},
}
_WAITS = {
    "event": members("kind key timeout_ms"),
    "timer": members("kind key delay_ms"),
    "approval": members("kind key action timeout_ms"),
}


def encode(decision: object) -> bytes:
    """Canonical text of a decision with valid shape and bounds; anything else is none (HLP-118, HLP-125).

    Raises WorkflowError.
    """
    kind = decision.get("kind") if type(decision) is dict else None
    if type(kind) is not str or kind not in _KINDS:
        raise WorkflowError("decision: not a decision object of a known kind")
    item = fields(decision, f"decision {kind}", _KINDS[kind])
    integer(item["v"], "decision.v", 1, 1)
    text(item["activation_id"], "decision.activation_id")
    integer(item["revision"], "decision.revision", 0, INTEGER_MAX)
    if kind == "complete":
        canonical(item["output"], "output", depth=DATA_DEPTH)
    elif kind == "fail":
        check_error(item["error"], "error")
    else:
        _check_checkpoint(item)
        if kind == "suspend":
            _check_until(item["until"])
        elif kind == "wait":
            _check_wait(item["wait"])
    return canonical(item, f"decision {kind}", limit=DECISION_BYTES, depth=RUNTIME_DEPTH)


def _check_checkpoint(item: dict[str, Any]) -> None:
    text(item["continuation"], "continuation")
    canonical(item["state"], "state", limit=STATE_BYTES)
    commands = item["commands"]
    if type(commands) not in (list, tuple) or len(commands) > COMMANDS:
        raise WorkflowError(f"commands: not a list of at most {COMMANDS}")
    for number, command in enumerate(commands):
        encode_command(command, f"commands[{number}]")


def _check_until(until: object) -> None:
    """HLP-119."""
    if type(until) not in (list, tuple) or len(until) > UNTIL_KEYS:  # type: ignore[arg-type]
        raise WorkflowError(f"until: not a list of at most {UNTIL_KEYS}")
    keys = [text(key, "until") for key in until]  # type: ignore[attr-defined]
    if len(set(keys)) != len(keys):
        raise WorkflowError("until: a key occurs twice")


def _check_wait(wait: object) -> None:
    """HLP-121, HLP-085."""
    kind = wait.get("kind") if type(wait) is dict else None
    if type(kind) is not str or kind not in _WAITS:
        raise WorkflowError("wait: unknown kind")
    optional = members("proposed_arguments") if kind == "approval" else frozenset()
    item = fields(wait, "wait", _WAITS[kind], optional)
    text(item["key"], "wait.key")
    if kind == "timer":
        integer(item["delay_ms"], "delay_ms", 0, MAX_WAIT_DURATION_MS)
    elif kind == "approval" or item["timeout_ms"] is not None:
        integer(item["timeout_ms"], "timeout_ms", 0, MAX_WAIT_DURATION_MS)
    if kind == "approval":
        encode_action(item["action"], "action")
        if item.get("proposed_arguments") is not None:
            check_arguments(item["proposed_arguments"], "proposed_arguments", PROPOSED_ARGUMENTS_BYTES)


class ReturnCheck:
    """What a returned decision must agree with at the end of its activation (HLP-124)."""

    __slots__ = ("_activation_id", "_commands", "_knows_target", "_revision")

    def __init__(self, activation_id: str, revision: int, commands: bytes, knows_target: Callable[[str], bool]) -> None:
        self._activation_id = activation_id
        self._revision = revision
        self._commands = commands
        self._knows_target = knows_target

    def encode(self, decision: object) -> bytes:
        """Canonical text of the decision. Raises WorkflowError."""
        encoded = encode(decision)
        assert isinstance(decision, dict)  # `encode` refuses everything else
        if decision["activation_id"] != self._activation_id or decision["revision"] != self._revision:
            raise WorkflowError("decision: made for another activation")
        if decision["kind"] == "complete" and self._commands != b"[]":
            raise WorkflowError("decision complete: children are staged")
        if (
            "commands" in decision
            and canonical(decision["commands"], "commands", depth=RUNTIME_DEPTH) != self._commands
        ):
            raise WorkflowError("decision: its commands are not those staged by now")
        if "continuation" in decision and not self._knows_target(decision["continuation"]):
            raise WorkflowError("decision.continuation: not an entry of this workflow")
        return encoded
