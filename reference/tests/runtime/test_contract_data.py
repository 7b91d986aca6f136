"""The helper's own copies of limits and value rules against the contract's data."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from protocol3_spec import loader

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "fixtures" / "vectors" / "text-and-time.json").read_text())["sections"]


def helper(name):
    """A private module of our helper."""
    root = str(ROOT / "reference" / "protocol3" / "runtime")
    if root not in sys.path:
        sys.path.append(root)
    return importlib.import_module(f"ledgence.worker.{name}")


def cases(section):
    return [pytest.param(case, id=f"{section}-{case['id']}") for case in VECTORS[section]["cases"]]


def value_of(case):
    return json.loads(case["json"]) if "json" in case else case["value"]


def accepted(check, *arguments):
    """Does the check return without a WorkflowError?"""
    try:
        check(*arguments)
    except helper("_errors").WorkflowError:
        return False
    return True


def test_every_limit_is_that_of_the_contract():
    """Chapter 40: the helper's numbers and `limits.json` never differ."""
    limits = helper("_limits")
    own = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert own
    groups = loader.read("limits.json")["groups"].values()
    contract = {name: bound["value"] for group in groups for name, bound in group.items()}
    assert own == {name: contract.get(name) for name in own}


@pytest.mark.parametrize("case", cases("identifier_128") + cases("identifier_128_escaped"))
def test_identifier_text(case):
    """TXT-001 … TXT-003."""
    assert accepted(helper("_checks").text, value_of(case), "value") is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("program_name_128"))
def test_program_names(case):
    """TXT-005."""
    assert accepted(helper("_checks").pathname, value_of(case), "value") is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("uri_reference"))
def test_uri_references(case):
    """TXT-030 … TXT-033."""
    assert helper("_uris").is_uri_reference(value_of(case)) is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("absolute_uri"))
def test_absolute_uris(case):
    """TXT-024, TXT-030 … TXT-032."""
    assert helper("_uris").is_absolute_uri(value_of(case)) is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("rfc3339"))
def test_times(case):
    """TXT-041 … TXT-044."""
    assert helper("_times").is_time(value_of(case)) is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("traceparent"))
def test_traceparents(case):
    """TRC-001."""
    assert helper("_trace").is_traceparent(value_of(case)) is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("tracestate"))
def test_tracestates(case):
    """TRC-002 … TRC-004."""
    assert helper("_trace").is_tracestate(value_of(case)) is (case["verdict"] == "accept")


MINIMAL = {
    "specversion": "1.0",
    "id": "e",
    "source": "urn:s",
    "type": "t",
    "datacontenttype": "application/json",
    "data": None,
}


@pytest.mark.parametrize("case", cases("external_event"))
def test_external_events(case):
    """TXT-020 … TXT-027. The helper measures the whole event elsewhere (RUN-069)."""
    event = {name: value for name, value in (MINIMAL | case["value"]).items() if value != "__DELETE__"}
    assert accepted(helper("_events").check_event, event, "event") is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("event_attribute_name"))
def test_event_attribute_names(case):
    """TXT-020."""
    event = MINIMAL | {value_of(case): "x"}
    assert accepted(helper("_events").check_event, event, "event") is (case["verdict"] == "accept")


@pytest.mark.parametrize("case", cases("event_attribute_value"))
def test_event_attribute_values(case):
    """TXT-021."""
    parse = helper("_frames").parse
    event = MINIMAL | {"custom": parse(case["json"].encode())}
    assert accepted(helper("_events").check_event, event, "event") is (case["verdict"] == "accept")
