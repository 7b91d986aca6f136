"""Staged child commands (HLP-072 … HLP-081) and branch specifications (HLP-104).

The checks of a command serve two callers: the methods that stage one, and the check of a returned decision.
"""

from __future__ import annotations

from typing import Any

from ._checks import fields, integer, members, one_of, pathname, text
from ._errors import WorkflowError
from ._exact import canonical, copy
from ._limits import (
    COMMANDS,
    DECISION_BYTES,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_RETRY_DELAY_MS,
    FORK_REQUEST_BYTES,
    MAX_ATTEMPT_TIMEOUT_MS,
    MAX_ATTEMPTS,
    MAX_RETRY_DELAY_MS,
    MIN_ATTEMPT_TIMEOUT_MS,
    RUNTIME_DEPTH,
)

_COMMAND = members("key program queue data retry_policy attempt_timeout_ms")
_PROGRAM = members("id version")
_RETRY = members("max_attempts retry_delay_ms")
_BRANCH = members("key entrypoint queue data retry_policy attempt_timeout_ms")


def default_retry_policy() -> dict[str, int]:
    return {"max_attempts": DEFAULT_MAX_ATTEMPTS, "retry_delay_ms": DEFAULT_RETRY_DELAY_MS}


def encode_command(command: object, what: str) -> bytes:
    """Canonical text of a complete child command (HLP-073, HLP-074). Raises WorkflowError."""
    item = fields(command, what, _COMMAND, members("kind"))
    if "kind" in item:
        one_of(item["kind"], f"{what}.kind", members("workflow"))
    program = fields(item["program"], f"{what}.program", _PROGRAM)
    pathname(program["id"], f"{what}.program")
    pathname(program["version"], f"{what}.version")
    _check_submission(item, what)
    return canonical(item, what, limit=DECISION_BYTES, depth=RUNTIME_DEPTH)


def encode_branch(branch: object, what: str) -> bytes:
    """Canonical text of a complete branch (HLP-104). Raises WorkflowError."""
    item = fields(branch, what, _BRANCH)
    text(item["entrypoint"], f"{what}.entrypoint")
    _check_submission(item, what)
    return canonical(item, what, limit=FORK_REQUEST_BYTES, depth=RUNTIME_DEPTH)


def _check_submission(item: dict[str, Any], what: str) -> None:
    text(item["key"], f"{what}.key")
    text(item["queue"], f"{what}.queue")
    canonical(item["data"], f"{what}.data")
    policy = fields(item["retry_policy"], f"{what}.retry_policy", _RETRY)
    integer(policy["max_attempts"], f"{what}.retry_policy.max_attempts", 1, MAX_ATTEMPTS)
    integer(policy["retry_delay_ms"], f"{what}.retry_policy.retry_delay_ms", 0, MAX_RETRY_DELAY_MS)
    timeout = item["attempt_timeout_ms"]
    integer(timeout, f"{what}.attempt_timeout_ms", MIN_ATTEMPT_TIMEOUT_MS, MAX_ATTEMPT_TIMEOUT_MS)


class Children:
    """Commands staged by this activation, in call order, and the keys its forks use."""

    __slots__ = ("_commands", "_forked")

    def __init__(self) -> None:
        self._commands: dict[str, bytes] = {}
        self._forked: dict[str, str] = {}  # branch key -> fork key

    def stage(self, command: dict[str, Any], what: str) -> None:
        """Keep a command for the decision; nothing is sent (HLP-072, HLP-075 … HLP-077)."""
        encoded = encode_command(command, what)
        key = command["key"]
        if key in self._forked:
            raise WorkflowError(f"{what}: the key belongs to a branch of fork {self._forked[key]!r}")
        staged = self._commands.get(key)
        if staged is not None:
            if staged != encoded:
                raise WorkflowError(f"{what}: the key is staged with another command")
            return
        if len(self._commands) >= COMMANDS:
            raise WorkflowError(f"{what}: a decision has at most {COMMANDS} commands")
        if len(_array([*self._commands.values(), encoded])) > DECISION_BYTES:
            raise WorkflowError(f"{what}: the commands are longer than {DECISION_BYTES} bytes")
        self._commands[key] = encoded

    def claim_branches(self, fork: str, keys: list[str]) -> None:
        """Bind branch keys to a new fork, or refuse them all (HLP-108)."""
        for key in keys:
            if key in self._commands or key in self._forked:
                raise WorkflowError(f"fork {fork!r}: key {key!r} is in use")
        self._forked.update(dict.fromkeys(keys, fork))

    @property
    def staged(self) -> bool:
        return bool(self._commands)

    def encoded(self) -> bytes:
        """The commands as one JSON array."""
        return _array(list(self._commands.values()))

    def commands(self) -> Any:
        return copy(self.encoded())


def _array(items: list[bytes]) -> bytes:
    return b"[%b]" % b",".join(items)


def result_of(inputs: dict[str, Any], key: str, kind: str | None) -> Any:
    """The successful output of a child in `inputs`; `kind` is what a reference claims it to be (HLP-079, HLP-080)."""
    outcome = inputs.get(key)
    if outcome is None:
        raise WorkflowError(f"child {key!r}: not among the inputs of this activation")
    if kind is not None and kind != outcome.get("kind", "task"):
        raise WorkflowError(f"child {key!r}: not a {kind}")
    if outcome["state"] != "succeeded":
        raise WorkflowError(f"child {key!r}: {outcome['state']}")
    return outcome["outcome"]["output"]
