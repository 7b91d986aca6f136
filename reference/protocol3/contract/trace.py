"""W3C trace carriers: the two texts and the join of header fields (chapter 19, Carriers, TRC-012, TRC-013)."""

import re
from collections.abc import Sequence
from typing import Final

from protocol3.contract.limits import TRACESTATE_BYTES, TRACESTATE_MEMBERS, TRACESTATE_VALUE_CHARS

_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    rf"=[ -+\--<>-~]{{1,{TRACESTATE_VALUE_CHARS}}}"
)


def is_traceparent(text: str) -> bool:
    """Version 00, lower case, trace and span id not zero (TRC-001)."""
    return _TRACEPARENT.fullmatch(text) is not None


def is_tracestate(text: str) -> bool:
    """At most 512 ASCII bytes and 32 members with distinct keys; empty members are allowed (TRC-002…004)."""
    members = text.split(",")
    if not text.isascii() or len(text) > TRACESTATE_BYTES or len(members) > TRACESTATE_MEMBERS:
        return False
    matches = [_MEMBER.fullmatch(member) for raw in members if (member := raw.strip(" "))]
    keys = [match[1] for match in matches if match is not None]
    return len(keys) == len(matches) == len(set(keys))


def join_headers(traceparents: Sequence[str], tracestates: Sequence[str]) -> tuple[str, str | None] | None:
    """The carrier in transport headers: exactly one valid parent, or None; a bad state alone is dropped."""
    if len(traceparents) != 1 or not is_traceparent(traceparents[0]):
        return None
    state = ",".join(member.strip(" \t") for field in tracestates for member in field.split(","))
    return traceparents[0], state if state and is_tracestate(state) else None
