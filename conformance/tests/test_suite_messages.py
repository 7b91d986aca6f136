"""What a failed assertion of a scenario tells: its statement, its names, and of two values what differs."""

from __future__ import annotations

from typing import Any

import pytest

from protocol3_conformance.assertions import comparison, told
from protocol3_conformance.wire import redaction
from protocol3_conformance.wire.difference import SHOWN, differences
from protocol3_conformance.wire.strict_json import same

WHOLE: dict[str, Any] = {**{f"m{number}": number for number in range(9)}, "items": [{"state": "queued"}, 2]}


def test_only_what_differs_is_told() -> None:
    other = {**WHOLE, "m3": 4, "items": [{"state": "running"}, 2, None], "new": 1}
    assert comparison("==", WHOLE, other) is not None
    assert differences(WHOLE, other) == [
        ".m3: 3 on the left, 4 on the right",
        ".items[0].state: 'queued' on the left, 'running' on the right",
        ".items[2]: None on the right only",
        ".new: 1 on the right only",
    ]
    assert differences(other, WHOLE)[-2:] == [".items[2]: None on the left only", ".new: 1 on the left only"]
    assert differences(1, "1") == ["1 on the left, '1' on the right"]
    assert differences(WHOLE, WHOLE) == []


def test_many_differences_are_counted() -> None:
    found = differences(list(range(50)), list(range(1, 51)))
    assert (len(found), found[-1]) == (SHOWN + 1, f"and {50 - SHOWN} more")


def test_what_is_no_comparison_of_containers_is_left_to_pytest() -> None:
    assert [comparison("==", 1, 2), comparison("in", [1], [2]), comparison("==", [1], (1,))] == [None] * 3


def test_json_identity_tells_numbers_apart() -> None:
    assert same({"a": [1, 2.0]}, {"a": [1, 2.0]})
    assert repr(same({"a": [1, 2]}, {"a": [1.0, 2]})) == ".a[0]: 1 on the left, 1.0 on the right"


@pytest.mark.parametrize(
    "told",
    [
        "{'a': 1, 'access_token': 'hunter2'}",
        '{"access_token":"hunter2"}',
        ".reply.access_token: 'hunter2' on the left",
        "    reply['access_token'] is 'hunter2'",
        "{'api-key': \"hunter2 it's\"}",
    ],
)
def test_no_credential_is_told(told: str) -> None:
    assert "hunter2" not in redaction.text(told)
    assert redaction.MASK in redaction.text(told)


def _fails(reply: dict[str, Any], wanted: list[int]) -> None:
    limit = 5
    assert reply["expires_at"] + limit == sum(wanted), "why"


def test_the_statement_and_its_names() -> None:
    """Without its own message, which is told beside it; nothing is called again."""
    with pytest.raises(AssertionError) as failure:
        _fails({"expires_at": 7}, [1, 2])
    entry = failure.tb.tb_next
    assert entry is not None
    assert told(entry.tb_frame, entry.tb_lineno) == [
        "assert reply['expires_at'] + limit == sum(wanted)",
        "    reply['expires_at'] is 7",
        "    limit is 5",
        "    wanted is [1, 2]",
    ]
