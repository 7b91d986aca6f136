"""From submission to result on a real database."""

from __future__ import annotations

from typing import Any


async def test_plain_success(client: Any) -> None:
    """TASK-100, DLV-024..029, DLV-058, DLV-085, DLV-130: the whole way of one task."""
    task = await client.submit(data={"n": 1.0})
    session = await client.open()
    assignment = await client.assignment(session)
    assert assignment["event"]["data"] == {"n": 1.0}
    authority = await client.renew(assignment)
    assert authority["dispatch_allowed"] is True
    reply = await client.settle(assignment)
    assert (reply["already_accepted"], reply["task_state"]) == (False, "succeeded")
    result = await client.read("task_result", task["task_id"])
    assert result["outcome"]["output"] == "done"
    assert await client.reasons(task["task_id"]) == [
        "submitted",
        "claimed",
        "dispatch_authorized",
        "report_accepted",
        "succeeded",
    ]
