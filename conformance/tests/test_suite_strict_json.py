"""The suite's JSON codec against every vector, and against itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol3_conformance.wire.strict_json import (
    InvalidJson,
    canonical,
    compact_size,
    decode,
    depth,
    encode,
    same,
)

VECTORS = json.loads((Path(__file__).parents[2] / "fixtures" / "vectors" / "json-profile.json").read_text("utf-8"))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def raw(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["raw_hex"]) if "raw_hex" in vector else vector["raw"].encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("vector", VECTORS["decode"], ids=lambda vector: vector["id"])
def test_document(vector: dict[str, Any]) -> None:
    """JSON-001..055: verdict, depth, compact size and canonical text."""
    if vector["verdict"] == "reject":
        with pytest.raises(InvalidJson):
            decode(raw(vector))
        return
    value = decode(raw(vector))
    assert depth(value) == vector["depth"]
    assert compact_size(value) == vector["compact_len"]
    assert canonical(value).decode() == vector["canonical"]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b'"\xff"', "JSON-003"),
        (b"\xef\xbb\xbf1", "JSON-004"),
        (b"1 2", "JSON-001"),
        (b"[1,]", "JSON-005"),
        (b'{"a":[{"k":1,"\\u006b":1}]}', "JSON-006"),
        (b'"\t"', "JSON-009"),
        (b'"\\x"', "JSON-010"),
        (b'"\\ud800"', "JSON-011"),
        (b'"\\ud800"', "TXT-008"),
        (b"18446744073709551616", "JSON-020"),
        (b"1e400", "JSON-024"),
        (b"+1", "JSON-026"),
    ],
)
def test_the_rule_that_is_broken(body: bytes, rule: str) -> None:
    """So that a target which takes such a body is told by which rule it should not."""
    with pytest.raises(InvalidJson) as caught:
        decode(body)
    assert rule in caught.value.rules


@pytest.mark.parametrize("vector", VECTORS["depth"], ids=lambda vector: vector["id"])
def test_depth(vector: dict[str, Any]) -> None:
    """JSON-030, JSON-031."""
    assert depth(decode(raw(vector))) == vector["depth"]
    assert (vector["depth"] <= vector["limit"]) == (vector["verdict"] == "accept")


@pytest.mark.parametrize("vector", VECTORS["numeric_identity"], ids=lambda vector: vector["id"])
def test_identity(vector: dict[str, Any]) -> None:
    """JSON-040..044."""
    assert bool(same(decode(vector["a"].encode()), decode(vector["b"].encode()))) is vector["same"]


@pytest.mark.parametrize("vector", VECTORS["byte_budget"], ids=lambda vector: vector["id"])
def test_byte_budget(vector: dict[str, Any]) -> None:
    """JSON-050..055: the service's own count decides."""
    middle = vector["separator"].join([vector["unit"]] * vector["count"])
    body = (vector["prefix"] + middle + vector["suffix"]).encode()
    assert len(body) == vector["raw_len"]
    assert compact_size(decode(body)) == vector["compact_len"]


@given(VALUES)
def test_round_trip(value: Any) -> None:
    """What is encoded is read back with its number classes, and the standard library agrees on the document."""
    text = encode(value)
    assert same(decode(text), value)
    assert canonical(decode(text)) == canonical(value)
    assert json.loads(text) == value


@given(VALUES, st.data())
def test_member_order_is_no_difference(value: Any, data: st.DataObject) -> None:
    """JSON-043."""
    mapping = data.draw(st.dictionaries(st.text(max_size=3), st.just(value), min_size=1, max_size=5))
    assert same(mapping, dict(reversed(mapping.items())))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), {1: 2}, object(), (1, 2)])
def test_only_json_values_are_encoded(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        encode(bad)
