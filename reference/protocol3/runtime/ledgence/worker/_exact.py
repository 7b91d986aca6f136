"""Workflow values: exact types, and one canonical text that decides identity (HLP-025 … HLP-031, HLP-044).

The canonical text is compact JSON with sorted member names. Two values are the same binding if their texts are equal,
and every value handed out is read back from its text.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from ._errors import WorkflowError
from ._limits import DATA_DEPTH, INTEGER_MAX, INTEGER_MIN

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, sort_keys=True, separators=(",", ":")
)
_DECODER = json.JSONDecoder()

# A longest payload has fewer members; shared sub-values could otherwise multiply without end.
_MEMBERS_MAX = 1_000_000


def canonical(
    value: object, what: str, *, limit: int | None = None, depth: int = DATA_DEPTH, accepted: bool = False
) -> bytes:
    """The canonical text of a value, at most `limit` bytes long, as Python spells its floats (HLP-046).

    `accepted` says that the server has counted this value with its own float text: each float then earns the
    difference (HLP-044), while a new value gets none (HLP-045). Raises WorkflowError that names `what`.
    """
    _Check(what).value(value, depth)
    try:
        encoded = _ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        raise WorkflowError(f"{what}: a string has a lone surrogate") from None
    if limit is not None and len(encoded) > limit and not (accepted and len(encoded) <= limit + float_allowance(value)):
        raise WorkflowError(f"{what}: longer than {limit} bytes of compact JSON")
    return encoded


def copy(encoded: bytes) -> Any:
    """A fresh copy of the value with this canonical text: lists for tuples, members in sorted order."""
    return _DECODER.decode(encoded.decode())


def float_allowance(value: object) -> int:
    """Bytes by which the server's text of a received value may be shorter than ours."""
    if type(value) is float:
        return max(0, len(repr(value)) - 3)
    if type(value) is dict:
        return sum(map(float_allowance, value.values()))
    if type(value) is list or type(value) is tuple:
        return sum(map(float_allowance, value))
    return 0


class _Check:
    """Refuses what is not JSON by exact type. A cycle ends at the depth limit."""

    __slots__ = ("_members_left", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._members_left = _MEMBERS_MAX

    def value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return
        if kind is int:
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise WorkflowError(f"{self._what}: an integer is outside -2^63 … 2^64-1")
        elif kind is float:
            if not isfinite(value):
                raise WorkflowError(f"{self._what}: a float is not finite")
        elif kind is dict:
            self._enter(value, depth)
            for name, item in value.items():
                if type(name) is not str:
                    raise WorkflowError(f"{self._what}: a member name is not a string")
                self.value(item, depth - 1)
        elif kind is list or kind is tuple:
            self._enter(value, depth)
            for item in value:
                self.value(item, depth - 1)
        else:
            raise WorkflowError(f"{self._what}: {kind.__module__}.{kind.__qualname__} is not a JSON type")

    def _enter(self, container: Any, depth: int) -> None:
        self._members_left -= len(container)
        if depth == 0:
            raise WorkflowError(f"{self._what}: nested too deeply")
        if self._members_left < 0:
            raise WorkflowError(f"{self._what}: more than {_MEMBERS_MAX} members")
