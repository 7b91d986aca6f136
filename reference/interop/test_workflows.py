"""The published client against our coordinator: workflows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from ledgence.client import (
    AsyncClient,
    Conflict,
    NotFound,
    ServiceError,
    WorkflowCancelled,
    WorkflowFailed,
    WorkflowState,
    WorkflowSucceeded,
    WorkflowWaitTimeout,
)

MIXED = {"program": "mixed-workflow", "version": "1.0.1"}
EXPECTED = {"local": {"count": 3, "sum": 6}, "double": 12, "triple": 18}


def event(**members: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": "/interop",
        "type": "interop.sent",
        "datacontenttype": "application/json",
        "data": {"n": 1, "x": 1.0, "z": -0.0},
        **members,
    }


async def test_the_mixed_workflow_is_submitted_awaited_and_read(client: AsyncClient, key: str, queue: str) -> None:
    """WF-010, WF-020, WF-040, HLP-141: the result of the reference program, and equal reads of its end."""
    workflow = await client.workflows.submit(
        **MIXED, queue=queue, data={"values": [1, 2, 3], "queue": queue}, idempotency_key=key, correlation_key="c 1"
    )
    result = await workflow.wait(timeout=60)
    assert isinstance(result.outcome, WorkflowSucceeded)
    assert result.outcome.output == EXPECTED
    assert await workflow.result() == EXPECTED
    status = await workflow.status()
    assert status == result.workflow
    assert (status.state, status.correlation_key, status.activation_id) == (WorkflowState.SUCCEEDED, "c 1", None)


async def test_the_same_key_finds_the_same_workflow(client: AsyncClient, key: str, idle_queue: str) -> None:
    """WF-013, WF-015: a replay is the same workflow; other content under the key conflicts."""
    submission = client.workflows.prepare(**MIXED, queue=idle_queue, data={"n": 1}, idempotency_key=key)
    first = await client.workflows.submit(submission)
    again = await client.workflows.submit(submission)
    assert again.id == first.id
    with pytest.raises(Conflict):
        await client.workflows.submit(**MIXED, queue=idle_queue, data={"n": 1.0}, idempotency_key=key)


async def test_invalid_input_fails_with_its_kind(client: AsyncClient, key: str, queue: str) -> None:
    """REQ-C04: the program's own terminal failure passes through unchanged."""
    workflow = await client.workflows.submit(
        **MIXED, queue=queue, data={"values": [], "queue": queue}, idempotency_key=key
    )
    with pytest.raises(WorkflowFailed) as failed:
        await workflow.result(timeout=60)
    assert failed.value.result.outcome.error.kind == "invalid_input"


async def test_cancelling_ends_the_workflow(client: AsyncClient, key: str, idle_queue: str) -> None:
    """WF-060, WF-062: cancelling acknowledges at once, ends cancelled, and can be repeated."""
    workflow = await client.workflows.submit(**MIXED, queue=idle_queue, data={}, idempotency_key=key)
    assert (await workflow.cancel()).state is WorkflowState.CANCELLING
    with pytest.raises(WorkflowCancelled):
        await workflow.result(timeout=30)
    ended = await workflow.status()
    assert ended.state is WorkflowState.CANCELLED
    assert await workflow.cancel() == ended


async def test_an_event_is_received_once(client: AsyncClient, key: str, idle_queue: str) -> None:
    """EVT-010..015: accepted before any wait, replayed with its first instant, refused when changed."""
    workflow = await client.workflows.submit(**MIXED, queue=idle_queue, data={}, idempotency_key=key)
    command = workflow.prepare_event("paid:1", event=event())
    first = await workflow.send_event(command)
    again = await workflow.send_event(command)
    assert (first.already_accepted, again.already_accepted) == (False, True)
    assert first.accepted_at == again.accepted_at
    with pytest.raises(Conflict):
        await workflow.send_event(key="paid:1", event=event())
    await workflow.cancel()
    with pytest.raises(ServiceError) as late:
        await workflow.send_event(key="paid:2", event=event())
    assert late.value.code == "obsolete_operation"
    assert (await workflow.send_event(command)).already_accepted


async def test_unknown_work_is_not_found(client: AsyncClient, key: str, queue: str) -> None:
    """WF-042, WF-017: typed errors for an unknown workflow and an unknown program."""
    ghost = client.workflows.handle("wf-unknown")
    for call in (ghost.status, ghost.outcome, ghost.cancel):
        with pytest.raises(NotFound):
            await call()
    with pytest.raises(NotFound):
        await ghost.send_event(key="k", event=event())
    with pytest.raises(NotFound):
        await client.workflows.submit(program="nobody", version="1", queue=queue, data=1, idempotency_key=key)


async def test_observation_time_ends_without_touching_the_workflow(
    client: AsyncClient, key: str, idle_queue: str
) -> None:
    """CLI-025: a wait that runs out leaves the workflow running."""
    workflow = await client.workflows.submit(**MIXED, queue=idle_queue, data={}, idempotency_key=key)
    with pytest.raises(WorkflowWaitTimeout):
        await workflow.wait(timeout=0.3)
    assert (await workflow.status()).state is WorkflowState.RUNNING
    assert (await workflow.outcome()).outcome is None
