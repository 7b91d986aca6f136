"""Compact JSON put together from parts that are compact already: nothing is decoded only to be encoded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from protocol3.contract.strict_json import encode


def compact_object(members: Mapping[str, bytes]) -> bytes:
    """The object whose members have these compact values, in the given order."""
    return b"{" + b",".join(encode(name) + b":" + value for name, value in members.items()) + b"}"


def compact_array(elements: Iterable[bytes]) -> bytes:
    """The array of these compact values."""
    return b"[" + b",".join(elements) + b"]"
