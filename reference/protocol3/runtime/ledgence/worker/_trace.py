"""W3C carriers: TRACEPARENT and TRACESTATE (TRC-001 … TRC-004)."""

import re

from ._limits import TRACESTATE_BYTES, TRACESTATE_MEMBERS

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_KEY = r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
_MEMBER = re.compile(rf"({_KEY})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{1,256}}")


def is_traceparent(value: object) -> bool:
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def is_tracestate(value: object) -> bool:
    if not isinstance(value, str) or len(value) > TRACESTATE_BYTES or not value.isascii():
        return False
    members = [member.strip(" ") for member in value.split(",")]
    found = [_MEMBER.fullmatch(member) for member in members if member]
    keys = [match[1] for match in found if match is not None]
    return len(members) <= TRACESTATE_MEMBERS and None not in found and len(set(keys)) == len(keys)
