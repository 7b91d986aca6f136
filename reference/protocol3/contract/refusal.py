"""A refused request: the one exception that becomes an error object (chapter 03)."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from protocol3.contract.limits import ERROR_MESSAGE_CHARS
from protocol3.contract.strict_json import JsonValue
from protocol3_spec import errors

_ERRORS: Final = errors()
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")
_SHOWN_CHARS: Final = 64
_NEAR: Final = 0.75


class Refusal(Exception):
    """Error `code` with its `status`; `message` exists exactly for the codes that carry one (HTTP-064, HTTP-066).

    `status` is needed only where a code has several (413 and 415 of `invalid_input`). Raises ValueError for a
    code, status or message that the contract does not pair.

    HTTP-094.
    """

    def __init__(self, code: str, message: str | None = None, *, status: int | None = None) -> None:
        entry = _ERRORS.get(code)
        if entry is None:
            raise ValueError(f"unknown error code {code!r}")
        if entry.message != (message is not None):
            raise ValueError(f"{code} {'needs a' if entry.message else 'carries no'} message")
        if status is not None and status not in entry.statuses:
            raise ValueError(f"{code} does not go with status {status}")
        super().__init__(code, message)
        self.code: Final = code
        self.message: Final = None if message is None else message[:ERROR_MESSAGE_CHARS]
        self.status: Final = status or entry.statuses[0]

    def __str__(self) -> str:
        return self.code if self.message is None else f"{self.code}: {self.message}"

    def to_json(self) -> dict[str, JsonValue]:
        """The error object: `code`, and `message` where the code carries one."""
        return {"code": self.code} if self.message is None else {"code": self.code, "message": self.message}


def invalid(at: str, reason: str) -> Refusal:
    """`400/invalid_input` that names the place, such as `body.input.data`; never quotes the value found there."""
    return Refusal("invalid_input", f"{at}: {reason}")


def spelled(name: str) -> str:
    """A name that is not ours, as a message may show it: short, ASCII, quoted unless it looks like a field name."""
    short = name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}..."
    return short if _PLAIN.fullmatch(short) else ascii(short)


def unknown(what: str, name: str, known: Collection[str] = ()) -> str:
    """The reason for refusing a name; it points to the one of `known` that is nearest, if one is near."""
    near = get_close_matches(name[:_SHOWN_CHARS], known, n=1, cutoff=_NEAR)
    return f"unknown {what} {spelled(name)}" + "".join(f"; is {ours} meant?" for ours in near)
