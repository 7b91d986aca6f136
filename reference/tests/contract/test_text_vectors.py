"""Every case of fixtures/vectors/text-and-time.json against the value rules (chapters 02, 03, 31 and 19)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import completions, limits, media_type, query, text, timestamps, trace, uri
from protocol3.contract.cloudevents import cloud_event, external_event
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode

SECTIONS = json.loads((Path(__file__).parents[3] / "fixtures/vectors/text-and-time.json").read_text(encoding="utf-8"))[
    "sections"
]
EVENT: dict[str, JsonValue] = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/tests",
    "type": "test.event",
    "datacontenttype": "application/json",
    "data": 1,
}

Case = dict[str, Any]
Rule = Callable[[Any], object]

RULES: dict[str, Rule] = {
    "identifier_128": lambda value: text.identifier(value, "at"),
    "identifier_128_escaped": lambda value: text.identifier(value, "at"),
    "idempotency_key_255": lambda value: text.identifier(value, "at", limits.IDEMPOTENCY_KEY_BYTES),
    "correlation_key_512": lambda value: text.correlation(value, "at"),
    "program_name_128": lambda value: text.program_name(value, "at"),
    "digest": lambda value: text.digest(value, "at"),
    "uri_reference": uri.is_uri_reference,
    "absolute_uri": uri.is_absolute_uri,
    "rfc3339": timestamps.is_time_text,
    "traceparent": trace.is_traceparent,
    "tracestate": trace.is_tracestate,
    "event_attribute_name": lambda name: cloud_event(EVENT | {name: "x"}, "at"),
    "event_attribute_value": lambda value: cloud_event(EVENT | {"extension": value}, "at"),
    "content_type": media_type.is_json,
    "request_id": text.is_request_id,
}
VERDICTS = [(section, case) for section in RULES for case in SECTIONS[section]["cases"]]


def cases(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", SECTIONS[section]["cases"], ids=lambda case: case["id"])


def accepts(rule: Rule, value: object) -> bool:
    try:
        return rule(value) is not False
    except (Refusal, InvalidJson):
        return False


def value_of(case: Case) -> object:
    return decode(case["json"].encode("utf-8")) if "json" in case else case["value"]


@pytest.mark.parametrize(("section", "case"), VERDICTS, ids=[f"{section}-{case['id']}" for section, case in VERDICTS])
def test_verdict(section: str, case: Case) -> None:
    def judge(given: Case) -> object:
        return RULES[section](value_of(given))

    assert accepts(judge, case) is (case["verdict"] == "accept")


@cases("external_event")
def test_external_event(case: Case) -> None:
    """TXT-020…TXT-026, TXT-027, TXT-028, EVT-024."""
    event = {name: value for name, value in (EVENT | case["value"]).items() if value != "__DELETE__"}
    assert accepts(lambda value: external_event(value, "at"), event) is (case["verdict"] == "accept")


@cases("query_string")
def test_query_string(case: Case) -> None:
    """HTTP-050…053."""
    if case["verdict"] == "accept":
        assert query.decode(case["raw"]) == case["decoded"]
    else:
        with pytest.raises(Refusal):
            query.decode(case["raw"])


@cases("completion_result_ref")
def test_completion_result_ref(case: Case) -> None:
    """CMP-028."""
    parts = [case[name] for name in ("kind", "tenant_id", "namespace", "target_id")]
    assert completions.result_reference(*parts) == case["result_ref"]


@cases("completion_correlation")
def test_completion_correlation(case: Case) -> None:
    """CMP-035, CMP-036."""

    def judge(given: Case) -> object:
        return completions.correlation_from_attributes(
            given["ldgcorrelationkey"], given["ldgcorrelationkeyencoding"], "at"
        )

    assert accepts(judge, case) is (case["verdict"] == "accept")


@cases("completion_retry_delay")
def test_completion_retry_delay(case: Case) -> None:
    """CMP-060."""
    assert completions.retry_delay_ms(case["subscription_id"], case["attempts"]) == case["delay_ms"]


@cases("emitted_time")
def test_emitted_time(case: Case) -> None:
    """TXT-046."""
    assert timestamps.event_time(case["ms"]) == case["text"]
    assert timestamps.is_time_text(case["text"])


def test_all_sections_are_used() -> None:
    own = {"external_event", "query_string", "completion_result_ref", "completion_correlation"}
    assert set(SECTIONS) == set(RULES) | own | {"completion_retry_delay", "emitted_time"}
