"""Every case of fixtures/vectors/json-profile.json against the codec (JSON-001…055)."""

import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.fields import integer
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, canonical, compact_size, decode, depth, encode, same

VECTORS = json.loads((Path(__file__).parents[3] / "fixtures/vectors/json-profile.json").read_text(encoding="utf-8"))
KINDS = {type(None): "null", bool: "bool", int: "integer", float: "float", str: "string", list: "array", dict: "object"}
ANY_DEPTH = 1_000_000


def cases(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", VECTORS[section], ids=lambda case: case["id"])


def body_of(case: dict[str, Any]) -> bytes:
    if "raw_hex" in case:
        return bytes.fromhex(case["raw_hex"])
    raw: str = case["raw"]
    return raw.encode("utf-8")


@cases("decode")
def test_decode(case: dict[str, Any]) -> None:
    if case["verdict"] == "reject":
        with pytest.raises(InvalidJson):
            decode(body_of(case), max_depth=ANY_DEPTH)
        return
    value = decode(body_of(case), max_depth=ANY_DEPTH)
    assert KINDS[type(value)] == case["kind"]
    assert depth(value) == case["depth"]
    assert compact_size(value) == len(encode(value)) == case["compact_len"]
    assert canonical(value).decode("utf-8") == case["canonical"]


@cases("depth")
def test_depth(case: dict[str, Any]) -> None:
    if case["verdict"] == "reject":
        with pytest.raises(InvalidJson, match="nested deeper"):
            decode(body_of(case), max_depth=case["limit"])
        return
    value = decode(body_of(case), max_depth=case["limit"])
    assert (depth(value), compact_size(value)) == (case["depth"], case["compact_len"])


@cases("numeric_identity")
def test_numeric_identity(case: dict[str, Any]) -> None:
    a, b = decode(case["a"].encode("utf-8")), decode(case["b"].encode("utf-8"))
    assert same(a, b) is same(b, a) is case["same"]
    assert [canonical(a).decode("utf-8"), canonical(b).decode("utf-8")] == [case["canonical_a"], case["canonical_b"]]


@cases("typed_integer_fields")
def test_typed_integer_fields(case: dict[str, Any]) -> None:
    """JSON-027."""
    try:
        value = decode(case["raw"].encode("utf-8"))
        accepted = integer(value, "field", case["min"], case["max"]) == value
    except (InvalidJson, Refusal):
        accepted = False
    assert accepted is (case["verdict"] == "accept")


@cases("byte_budget")
def test_byte_budget(case: dict[str, Any]) -> None:
    """JSON-055: the compact size decides, not the bytes received."""
    body = (case["prefix"] + case["separator"].join([case["unit"]] * case["count"]) + case["suffix"]).encode("utf-8")
    size = compact_size(decode(body))
    assert (len(body), size) == (case["raw_len"], case["compact_len"])
    assert (size <= case["limit"]) is (case["verdict"] == "accept")
