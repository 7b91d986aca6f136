"""Argument and member checks by exact type: TEXT, INT, OBJ and PATHNAME (chapter 40)."""

from __future__ import annotations

import re
from typing import Any

from ._errors import WorkflowError
from ._limits import ID_BYTES, PROGRAM_NAME_BYTES

_NONCHARACTERS = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef{_NONCHARACTERS}]")
_PATHNAME = re.compile(rf"[a-z0-9._-]{{1,{PROGRAM_NAME_BYTES}}}")


def is_plain_text(value: object) -> bool:
    """A string without control characters, noncharacters and lone surrogates; it may be empty."""
    if type(value) is not str:
        return False
    return (value.isascii() and value.isprintable()) or (_FORBIDDEN.search(value) is None and utf8_size(value) >= 0)


def utf8_size(value: str) -> int:
    """Length in UTF-8 bytes, -1 if a lone surrogate makes that impossible."""
    try:
        return len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return -1


def text(value: object, what: str, limit: int = ID_BYTES) -> str:
    """TEXT(limit)."""
    if type(value) is not str or not value or not is_plain_text(value) or utf8_size(value) > limit:
        raise WorkflowError(f"{what}: not a text of 1 to {limit} bytes without control characters")
    return value


def free_text(value: object, what: str, limit: int) -> str:
    """Any string of at most `limit` UTF-8 bytes; control characters are welcome (TXT-007)."""
    if type(value) is not str or not 0 <= utf8_size(value) <= limit:
        raise WorkflowError(f"{what}: not a string of at most {limit} bytes")
    return value


def integer(value: object, what: str, low: int, high: int) -> int:
    """INT(low, high); booleans and floats are refused."""
    if type(value) is not int or not low <= value <= high:
        raise WorkflowError(f"{what}: not an integer from {low} to {high}")
    return value


def pathname(value: object, what: str) -> str:
    """PATHNAME: a program id or version."""
    if type(value) is not str or _PATHNAME.fullmatch(value) is None or value in (".", ".."):
        raise WorkflowError(f"{what}: not 1 to {PROGRAM_NAME_BYTES} of a-z 0-9 . _ -")
    return value


def fields(
    value: object, what: str, required: frozenset[str], optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """OBJ(required, optional)."""
    if type(value) is not dict:
        raise WorkflowError(f"{what}: not an object")
    if not required <= value.keys() <= required | optional:
        raise WorkflowError(f"{what}: members are not {', '.join(sorted(required))}")
    return value


def members(names: str) -> frozenset[str]:
    """Member names written as one string."""
    return frozenset(names.split())


def one_of(value: object, what: str, choices: frozenset[str]) -> str:
    if type(value) is not str or value not in choices:
        raise WorkflowError(f"{what}: not one of {', '.join(sorted(choices))}")
    return value
