"""Ordinary task output (RUN-053, RUN-054): judged by behaviour class, not by exact type."""

from __future__ import annotations

from math import isfinite

from ._frames import compact
from ._limits import DATA_DEPTH, INTEGER_MAX, INTEGER_MIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InvalidOutput(Exception):
    """The value cannot be a task's output."""


def output(value: object, limit: int) -> bytes:
    """Compact JSON of a task's output. Raises InvalidOutput; `limit` is the frame's, in bytes."""
    try:
        return compact(_Copy(limit).of(value, DATA_DEPTH))
    except (ValueError, OverflowError) as error:
        raise InvalidOutput(f"output is not JSON: {error}") from None


class _Copy:
    """Plain copies of JSON-like values. A cycle ends at the depth limit, a value with too many members at the byte
    limit of the frame: each takes two bytes or more."""

    __slots__ = ("_members_left",)

    def __init__(self, limit: int) -> None:
        self._members_left = limit // 2

    def of(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if isinstance(value, int):
            number = int.__index__(value)
            if not INTEGER_MIN <= number <= INTEGER_MAX:
                raise InvalidOutput("output has an integer outside -2^63 … 2^64-1")
            return number
        if isinstance(value, float):
            real = float.__float__(value)
            if not isfinite(real):
                raise InvalidOutput("output has a float that is not finite")
            return real
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, dict):
            self._enter(len(value), depth)
            return {self._name(key): self.of(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            self._enter(len(value), depth)
            return [self.of(item, depth - 1) for item in value]
        raise InvalidOutput(f"output has a value of type {kind.__name__}")

    def _enter(self, members: int, depth: int) -> None:
        self._members_left -= members
        if depth == 0:
            raise InvalidOutput(f"output is nested deeper than {DATA_DEPTH}")
        if self._members_left < 0:
            raise InvalidOutput("output is larger than a frame")

    @staticmethod
    def _name(key: object) -> str:
        if not isinstance(key, str):
            raise InvalidOutput("output has a member name that is not a string")
        return str.__str__(key)
