"""Query strings, trace headers, media types (chapters 03 and 19)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import media_type, query, trace
from protocol3.contract.models.common import Scope, TraceContext
from protocol3.contract.models.tasks import (
    AttemptQuery,
    HistoryQuery,
    TaskListQuery,
    TaskQuery,
)
from protocol3.contract.models.workflows import WorkflowRef
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.http.routes import from_body

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))
SCOPE = Scope(tenant_id="north", namespace="reports")


def sample(name: str) -> Any:
    return copy.deepcopy(SAMPLES[name]["document"])


def refuse(read: Any, document: Any, place: str) -> None:
    with pytest.raises(Refusal, match=place):
        read(document)


TASK = "tenant_id=t+%2B+1&namespace=eu&task_id=tsk-77"


def test_queries() -> None:
    """HTTP-051, HTTP-054, HTTP-055."""
    scope = Scope(tenant_id="t + 1", namespace="eu")
    assert TaskQuery.from_query(TASK) == TaskQuery(scope=scope, task_id="tsk-77")
    assert AttemptQuery.from_query(TASK + "&attempt_id=a") == AttemptQuery(
        scope=scope, task_id="tsk-77", attempt_id="a"
    )
    assert HistoryQuery.from_query(TASK).after_sequence == 0
    assert HistoryQuery.from_query(TASK + "&after_sequence=0018").after_sequence == 18
    assert HistoryQuery.from_query(f"{TASK}&after_sequence={2**64 - 1}").after_sequence == 2**64 - 1
    assert WorkflowRef.from_query(b"tenant_id=a&namespace=b&workflow_id=wf%2F1").workflow_id == "wf/1"
    listed = TaskListQuery.from_query(
        "tenant_id=a&namespace=b&limit=100&state=failed&queue=q&correlation_key=&submitted_from=0"
        "&submitted_until=253402300799999&cursor=c"
    )
    assert (listed.limit, listed.state, listed.queue, listed.correlation_key) == (100, "failed", "q", "")
    assert (listed.submitted_from, listed.submitted_until, listed.cursor) == (0, 253402300799999, "c")
    bare = TaskListQuery.from_query("tenant_id=a&namespace=b")
    assert (bare.limit, bare.state, bare.correlation_key, bare.cursor) == (50, None, None, None)
    assert TaskListQuery.from_query("tenant_id=a&namespace=b&submitted_until=0").submitted_until == 0


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (TaskQuery.from_query, ""),
        (TaskQuery.from_query, TASK + "&"),
        (TaskQuery.from_query, "tenant_id=a&namespace=b"),
        (TaskQuery.from_query, TASK + "&limit=1"),
        (TaskQuery.from_query, TASK + "&%74ask_id=x"),
        (TaskQuery.from_query, TASK + "#x"),
        (TaskQuery.from_query, "#" + TASK),
        (TaskQuery.from_query, "tenant_id=&namespace=b&task_id=c"),
        (TaskQuery.from_query, "tenant_id=a&namespace=b&task_id=%00"),
        (AttemptQuery.from_query, TASK),
        (HistoryQuery.from_query, TASK + "&after_sequence="),
        (HistoryQuery.from_query, TASK + "&after_sequence=+1"),
        (HistoryQuery.from_query, TASK + "&after_sequence=-1"),
        (HistoryQuery.from_query, TASK + "&after_sequence=1.0"),
        (HistoryQuery.from_query, TASK + "&after_sequence=%D9%A1"),
        (HistoryQuery.from_query, f"{TASK}&after_sequence={2**64}"),
        (HistoryQuery.from_query, TASK + "&after_sequence=" + "9" * 8000),
        (WorkflowRef.from_query, "tenant_id=a&namespace=b&workflow_id=c&task_id=d"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&task_id=c"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&limit=0"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&limit=101"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&state=lost"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&queue="),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&correlation_key=%0A"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&submitted_from=5&submitted_until=5"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&submitted_from=253402300800000"),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&cursor="),
        (TaskListQuery.from_query, "tenant_id=a&namespace=b&cursor=" + "c" * 8193),
    ],
)
def test_refused_queries(read: Any, raw: str) -> None:
    """HTTP-050…059."""
    with pytest.raises(Refusal) as caught:
        read(raw)
    assert (caught.value.code, caught.value.status) == ("invalid_input", 400)
    assert (caught.value.message or "").startswith("query")


def test_long_runs_of_digits_stay_cheap() -> None:
    assert query.number("0" * 16000 + "7", "query.limit", 1, 100) == 7
    with pytest.raises(Refusal):
        query.number("0" * 16000 + "x", "query.limit", 1, 100)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("parents", "states", "carrier"),
    [
        ([PARENT], [], (PARENT, None)),
        ([PARENT], ["a=1"], (PARENT, "a=1")),
        ([PARENT], ["a=1 ,\tb=2", "c=3"], (PARENT, "a=1,b=2,c=3")),
        ([PARENT], ["a=1", "a=2"], (PARENT, None)),
        ([PARENT], ["a"], (PARENT, None)),
        ([PARENT], ["a=" + "x" * 256, "b=" + "x" * 253], (PARENT, None)),
        ([PARENT], [""], (PARENT, None)),
        ([], ["a=1"], None),
        ([PARENT, PARENT], ["a=1"], None),
        ([PARENT.upper()], [], None),
        (["01" + PARENT[2:]], [], None),
    ],
)
def test_trace_headers(parents: list[str], states: list[str], carrier: tuple[str, str | None] | None) -> None:
    """TRC-012, TRC-013."""
    assert trace.join_headers(parents, states) == carrier
    context = TraceContext.from_headers(parents, states)
    assert (None if context is None else (context.traceparent, context.tracestate)) == carrier


def test_media_types() -> None:
    """HTTP-030…032."""
    for types, encodings in [(["application/json"], []), (['Application/JSON; Charset="UTF-8"'], ["identity"])]:
        media_type.check(types, encodings)
    for types, encodings in [
        ([], []),
        (["application/json"] * 2, []),
        (["text/json"], []),
        (["application/json"], ["gzip"]),
        (["application/json"], [""]),
        (["application/json"], ["Identity"]),
        (["application/json"], ["identity"] * 2),
    ]:
        with pytest.raises(Refusal) as caught:
            media_type.check(types, encodings)
        assert (caught.value.code, caught.value.status) == ("invalid_input", 415)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("priority", "priority"),
        ("workflow_ids", "workflow_ids; is workflow_id meant?"),
        ("with spaces", "'with spaces'"),
        ("\x1b[2J\u202e\x7f", r"'\x1b[2J\u202e\x7f'"),
        ("it's \ud800", '"it\'s \\ud800"'),
        ("", "''"),
        ("n" * 65, "n" * 64 + "..."),
    ],
)
def test_unknown_names_are_shown_short_and_safe(name: str, shown: str) -> None:
    """HTTP-065: with the name of ours that is nearest, if one is near."""
    with pytest.raises(Refusal) as caught:
        WorkflowRef.from_json({"scope": SCOPE.to_json(), "workflow_id": "w", name: 1})
    assert caught.value.message == f"body: unknown member {shown}"


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        ("&limitt=1", "unknown name limitt; is limit meant?"),
        ("&%00%C3%A9=1", r"unknown name '\x00\xe9'"),
        ("&=1", "unknown name ''"),
        ("&tenant_id=b", "tenant_id is given twice"),
        ("&%74enant_id=b", "tenant_id is given twice"),
        ("&a%0Ab=1&a%0Ab=2", r"'a\nb' is given twice"),
    ],
)
def test_a_wrong_query_name_is_named(piece: str, reason: str) -> None:
    """HTTP-053, HTTP-065."""
    with pytest.raises(Refusal) as caught:
        TaskListQuery.from_query("tenant_id=a&namespace=b" + piece)
    assert caught.value.message == f"query: {reason}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"scope":1,"workflow_id":1,"\\u0073cope":2}', "repeated member scope"),
        (b'{"data":{"secret name":1,"secret name":2}}', "repeated member name"),
        (b"{]", "not JSON at character 1"),
    ],
)
def test_a_repeated_member_is_named_if_the_name_is_ours(body: bytes, reason: str) -> None:
    """JSON-006, HTTP-065: it may stand in application data, whose names are nobody else's business."""
    with pytest.raises(Refusal) as caught:
        from_body(WorkflowRef.from_json)(body)
    assert caught.value.message == f"body: {reason}"
