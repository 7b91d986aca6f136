"""The helper and the coordinator judge the same values alike, although they share no code."""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol3.contract import strict_json, timestamps, trace, uri
from protocol3.contract.models.activations import ActivationContext
from protocol3.contract.models.decisions import decode_decision
from protocol3.contract.refusal import Refusal

RUNTIME = str(Path(__file__).parents[2] / "protocol3" / "runtime")

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0, 1, 0.0, -0.0, 1.0, 1e-07, 1e16, 5e-324])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@pytest.fixture(scope="module")
def helper():
    """A private module of our helper by name."""
    sys.path.append(RUNTIME)
    yield lambda name: importlib.import_module(f"ledgence.worker.{name}")
    sys.path.remove(RUNTIME)


@given(values, values)
@example([1], [1.0])
@example({"b": 0.0, "a": True}, {"a": True, "b": 0.0})
def test_bindings_are_equal_exactly_when_the_contract_says_so(helper, a, b):
    """HLP-029, JSON-040 … JSON-044."""
    canonical = helper("_exact").canonical
    assert (canonical(a, "a") == canonical(b, "b")) is strict_json.same(a, b)


@given(values)
def test_a_copy_is_the_same_value(helper, value):
    """HLP-030, HLP-031; and the server reads it back as the same one (JSON-046)."""
    exact = helper("_exact")
    encoded = exact.canonical(value, "value")
    assert strict_json.same(exact.copy(encoded), value)
    assert strict_json.same(strict_json.decode(encoded), value)


@given(values)
def test_the_float_allowance_covers_what_the_server_counts(helper, value):
    """HLP-044: a value that fits the server's count is never refused when it comes back."""
    encoded = helper("_exact").canonical(value, "value")
    allowance = helper("_exact").float_allowance(value)
    assert len(encoded) <= strict_json.compact_size(value) + allowance


uri_text = st.text(st.sampled_from("a1-._~%2fF:/?#[]@!$&'()*+,;= é<v"), max_size=12)


@settings(max_examples=500)
@given(uri_text)
@example("//[::1]:80/")
@example("//[v1.a]")
def test_uris(helper, text):
    """TXT-030 … TXT-032."""
    assert helper("_uris").is_uri_reference(text) is uri.is_uri_reference(text)
    assert helper("_uris").is_absolute_uri(text) is uri.is_absolute_uri(text)


address = st.text(st.sampled_from("0f1:."), min_size=2, max_size=24)


@settings(max_examples=500)
@given(address)
@example("1:2:3:4:5:6:7:8")
@example("::1.2.3.4")
@example("1::2::3")
def test_ip_literals(helper, text):
    """TXT-032."""
    assert helper("_uris").is_uri_reference(f"//[{text}]") is uri.is_uri_reference(f"//[{text}]")


number = st.integers(0, 99).map("{:02d}".format)
instant = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["0000", "1900", "2000", "2023", "2024", "9999"]),
    st.sampled_from(["01", "02", "06", "12", "13"]),
    st.sampled_from(["01", "28", "29", "30", "31", "32"]),
    st.sampled_from("Tt "),
    st.sampled_from(["00", "12", "23", "24"]),
    st.sampled_from(["00", "29", "59", "60"]),
    st.sampled_from(["00", "59", "60", "61"]),
    st.sampled_from(["", ".5", "."]),
    st.sampled_from(["Z", "z", "+00:00", "-00:01", "+23:59", "+12:30", "-11:30", "+24:00", ""]),
)


@settings(max_examples=1000)
@given(instant)
@example("2016-12-31T23:59:60Z")
@example("2017-01-01T12:29:60+12:30")
def test_times(helper, text):
    """TXT-041 … TXT-044."""
    assert helper("_times").is_time(text) is timestamps.is_time_text(text)


@settings(max_examples=500)
@given(st.text(st.sampled_from("ab1@=,_ *-/\t~\x7f"), max_size=14))
def test_tracestates(helper, text):
    """TRC-002 … TRC-004."""
    assert helper("_trace").is_tracestate(text) is trace.is_tracestate(text)


def test_records_that_find_no_room_are_counted(helper):
    """RUN-100: 64 records wait until the host has had `ready`; of 16 KiB each they are the 1 MiB."""
    read_end, write_end = os.pipe()
    sink = helper("_log_sink").LogSink(helper("_frames").FrameWriter(write_end), 2, 2 * 1024 * 1024)
    for _ in range(70):
        sink.take(time="t", severity="INFO", logger="x", message="m", attributes={})
    os.close(read_end)
    os.close(write_end)
    assert sink.dropped == 6


DECISIONS = [
    "ctx.suspend(continuation='c', state={'s': 1}, until=['b', 'a'])",
    "ctx.continue_(continuation='é' * 64, state=None)",
    "ctx.wait_event('k', continuation='c', state=[1.0])",
    "ctx.wait_event('k', continuation='c', state=None, timeout_ms=31536000000)",
    "ctx.sleep('k', 0, continuation='c', state='x' * 65534)",
    "ctx.complete(nested(64))",
    "ctx.fail('k', 'a\\n')",
]
STAGED = """
ctx.task("t", program="p", version="1", queue="q", data=None, retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
ctx.workflow("w", program="p", version="1", queue="q", data={"x": [1]}, attempt_timeout_ms=60000)
"""


@pytest.mark.parametrize("code", DECISIONS)
@pytest.mark.parametrize("staged", ["", STAGED])
def test_the_server_accepts_every_decision_of_the_helper(lab, code, staged):
    """DEC-010 … DEC-015, HLP-124."""
    if "complete" in code and staged:
        staged = ""
    decode_decision(lab.decision(f"{staged}return {code}"))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"state": [1, 1.0], "continuation": "c", "revision": 2**64 - 1},
        {"wake": {"kind": "timer", "key": "k", "deadline": 5}, "revision": 1},
        {"wake": {"kind": "timer", "key": "k", "deadline": 5.0}},
        {"wake": {"kind": "other"}},
        {"local_steps": [{"key": "k", "callable": "m:f", "input": 1, "output": None}]},
        {"local_steps": [{"key": "k", "callable": "m:f", "input": 1}]},
        {"inputs": {"k": {"task_id": "t", "state": "cancelled", "outcome": {"kind": "cancelled"}}}},
        {"inputs": {"k": {"task_id": "t", "state": "failed", "outcome": {"kind": "cancelled"}}}},
        {"parent_workflow_id": "p"},
        {"v": True},
    ],
)
def test_helper_and_worker_judge_a_context_alike(lab, activation, change):
    """RUN-062, ACT-020 … ACT-023."""
    accepted = lab.workflow("return ctx.complete(1)", **change)["status"] == "success"
    try:
        ActivationContext.from_json(activation(**change))
    except Refusal:
        assert not accepted
    else:
        assert accepted
