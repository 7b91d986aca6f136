"""What of an exchange may leave the machine: credentials that a body or a header could carry are masked.

The suite sends none; a target, or a proxy before it, may still put one into a reply.
"""

from __future__ import annotations

import re

MASK = "[redacted]"
NAMES = r"[\w-]{0,64}(?:password|passwd|secret|token|api[_-]?key|authorization|cookie|credential)[\w-]{0,64}"
VALUE = r"""("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[0-9][^,}\s]*)"""
MEMBER = re.compile(rf"""((?<![\w-]){NAMES}["']?\]?(?:\s*:\s*|\ is\ )){VALUE}""", re.IGNORECASE)
"""Of a body, and of the values that a failed assertion tells: `x['token'] is '…'`, `.token: '…' on the left`."""
USER_INFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s\"@]+@", re.IGNORECASE)
HEADER = re.compile(NAMES, re.IGNORECASE)


def text(shown: str) -> str:
    """The text of a body or a message without credentials."""
    return USER_INFO.sub(rf"\1{MASK}@", MEMBER.sub(rf'\1"{MASK}"', shown))


def header(name: str, value: str) -> str:
    """The value of a header field that may be shown."""
    return MASK if HEADER.fullmatch(name) else text(value)
