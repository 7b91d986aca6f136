"""The specification's own counting and text rules against the vectors: what its keywords are built on."""

import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import strict_json
from protocol3_spec import compact, documents, texts, validation

VECTORS = Path(__file__).parents[3] / "fixtures/vectors"
PROFILE: dict[str, Any] = json.loads((VECTORS / "json-profile.json").read_text(encoding="utf-8"))
SECTIONS: dict[str, Any] = json.loads((VECTORS / "text-and-time.json").read_text(encoding="utf-8"))["sections"]

DECODED = [case for case in PROFILE["decode"] if case["verdict"] == "accept"]
DEFINITIONS = {
    "identifier_128": "Identifier",
    "idempotency_key_255": "IdempotencyKey",
    "correlation_key_512": "CorrelationKey",
    "program_name_128": "ProgramName",
    "digest": "Digest",
    "uri_reference": "EventSource",
    "absolute_uri": "SchemaUri",
    "rfc3339": "EventTime",
    "traceparent": "Traceparent",
    "tracestate": "Tracestate",
}
TEXTS = [(section, case) for section in DEFINITIONS for case in SECTIONS[section]["cases"] if "value" in case]


@pytest.mark.parametrize("case", DECODED, ids=[case["id"] for case in DECODED])
def test_compact_and_canonical_text(case: dict[str, Any]) -> None:
    """JSON-030, JSON-050…054."""
    body = bytes.fromhex(case["raw_hex"]) if "raw_hex" in case else case["raw"].encode()
    value = strict_json.decode(body)
    assert compact.compact_bytes(value) == case["compact_len"]
    assert compact.compact(value, sort=True) == case["canonical"]
    assert compact.depth(value) == case["depth"]


@pytest.mark.parametrize("case", PROFILE["numeric_identity"], ids=lambda case: case["id"])
def test_identity(case: dict[str, Any]) -> None:
    """JSON-040…044."""
    a, b = (strict_json.decode(case[side].encode()) for side in "ab")
    assert compact.same(a, b) == case["same"]


@pytest.mark.parametrize("case", PROFILE["byte_budget"], ids=lambda case: case["id"])
def test_byte_budget(case: dict[str, Any]) -> None:
    """JSON-055."""
    text = case["prefix"] + case["separator"].join([case["unit"]] * case["count"]) + case["suffix"]
    assert compact.compact_bytes(strict_json.decode(text.encode())) == case["compact_len"]


@pytest.mark.parametrize(("section", "case"), TEXTS, ids=[f"{section}-{case['id']}" for section, case in TEXTS])
def test_text_classes(section: str, case: dict[str, Any]) -> None:
    """TXT-001…006, TXT-030…044, TRC-001…004, by the definition that the schemas refer to."""
    verdict = validation.is_valid(f"scalars#/$defs/{DEFINITIONS[section]}", case["value"])
    assert verdict == (case["verdict"] == "accept")


@pytest.mark.parametrize("case", SECTIONS["event_attribute_value"]["cases"], ids=lambda case: case["id"])
def test_attribute_values(case: dict[str, Any]) -> None:
    """TXT-021."""
    try:
        value = strict_json.decode(case["json"].encode())
    except strict_json.InvalidJson:
        assert case["verdict"] == "reject"
        return
    verdict = validation.is_valid("scalars#/$defs/Attribute", value)
    assert verdict == (case["verdict"] == "accept")


def test_every_class_has_a_rule() -> None:
    """A class is judged by its predicate, or by the pattern that stands beside it wherever it is used."""
    patterns = {
        definition["x-text"]: definition.get("pattern")
        for definition in documents.schemas()["scalars"]["$defs"].values()
        if "x-text" in definition
    }
    assert patterns.keys() == texts.CLASSES.keys()
    assert all(patterns[name] for name, predicate in texts.CLASSES.items() if predicate is None)
    named = documents.meta_schemas()["vocabulary"]["properties"]["x-text"]["enum"]
    assert set(named) == texts.CLASSES.keys()
