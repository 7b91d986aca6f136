"""Calls of the published client for profiles that our coordinator does not offer: completion notifications, approvals.

HTTP-042: an absent profile is `404/route_not_found`. CLI-017: the client takes that for no answer of the protocol, so a
read ends with ProtocolError and a mutation is uncertain because of one, each by its own typed error. Nothing else of
the client may end so: `test_surface.py` holds that.
"""

from __future__ import annotations

from typing import Any

import pytest
from ledgence.client import (
    ApprovalAction,
    ApprovalDecisionCommand,
    ApprovalDecisionUncertain,
    ApprovalStatus,
    AsyncClient,
    CompletionRetryCommand,
    CompletionRetryUncertain,
    CompletionSubscribeCommand,
    CompletionSubscriptionUncertain,
    CompletionTarget,
    InputError,
    ProtocolError,
    WorkflowApproval,
)
from mutations import HELLO

WORDS = {"destination": "billing", "idempotency_key": "done"}


@pytest.fixture
async def works(truth: AsyncClient) -> list[Any]:
    """A task and a workflow."""
    options = {"queue": "q", "data": 1, "idempotency_key": "k"}
    return [await truth.tasks.submit(**HELLO, **options), await truth.workflows.submit(**HELLO, **options)]


async def test_subscribing_is_uncertain_and_leaves_the_work_alone(truth: AsyncClient, works: list[Any]) -> None:
    """HTTP-042, CLI-017, CLI-022: by handle and by target, in one step and prepared; the command is kept as it was."""
    for kind, work in zip(("task", "workflow"), works, strict=True):
        target = CompletionTarget(kind=kind, id=work.id)
        command = work.prepare_subscribe(**WORDS)
        assert command.to_dict() == truth.completions.prepare(target=target, **WORDS).to_dict()
        before = await work.status()
        for call in (
            work.subscribe(command),
            work.subscribe(**WORDS),
            truth.completions.subscribe(command),
            truth.completions.subscribe(target=target, **WORDS),
        ):
            with pytest.raises(CompletionSubscriptionUncertain) as raised:
                await call
            assert type(raised.value.cause) is ProtocolError
            assert raised.value.command == command
            assert raised.value.request_id
        assert await work.status() == before


async def test_a_subscription_is_neither_read_nor_rearmed(truth: AsyncClient) -> None:
    """HTTP-042, CLI-017, CLI-022."""
    subscription = truth.completions.handle("ghost")
    assert subscription.scope == truth.scope
    with pytest.raises(ProtocolError):
        await subscription.status()
    command = subscription.prepare_retry(expected_generation=999)
    assert command.to_dict()["expected_generation"] == 999
    for call in (subscription.retry(command), subscription.retry(expected_generation=999)):
        with pytest.raises(CompletionRetryUncertain) as raised:
            await call
        assert type(raised.value.cause) is ProtocolError
        assert raised.value.command == command


async def test_an_approval_is_neither_read_nor_decided(truth: AsyncClient, works: list[Any]) -> None:
    """HTTP-042, CLI-017, CLI-022: with a view made by hand, as there is none to read; a saved decision is the same."""
    workflow = works[1]
    with pytest.raises(ProtocolError):
        await workflow.approval("ship")
    with pytest.raises(ProtocolError):
        await workflow.approvals(after_key="a", limit=10)
    view = WorkflowApproval(
        truth.scope, workflow.id, "ship", "act", 1, ApprovalAction("ship", "1", b'{"n":1.0}'), 5, 10,
        ApprovalStatus.PENDING, None, None, b"null", truth.base_url,
    )  # fmt: skip
    assert (view.action.arguments, view.proposed_arguments) == ({"n": 1.0}, None)
    assert view.action.to_dict() == view.to_dict()["action"]
    words = {"decision_id": "d", "decision": "approve", "reviewer": "r", "reason": "\u0000 any text"}
    command = workflow.prepare_approval_decision(view, **words)
    assert workflow.restore_approval_decision(command.to_dict()) == command
    with pytest.raises(ApprovalDecisionUncertain) as raised:
        await workflow.decide_approval(command)
    assert type(raised.value.cause) is ProtocolError
    assert raised.value.command == command


async def test_what_the_client_does_not_send(truth: AsyncClient, client: AsyncClient, works: list[Any]) -> None:
    """Commands of another scope or work, and out of bounds: refused before anything is sent."""
    task, workflow = works
    command = task.prepare_subscribe(**WORDS)
    retry = truth.completions.handle("one").prepare_retry(expected_generation=1)
    for call in (
        client.completions.subscribe(command),
        truth.completions.subscribe(command, **WORDS),
        truth.completions.subscribe(destination="d"),
        workflow.subscribe(command),
        task.subscribe(destination="", idempotency_key="k"),
        workflow.subscribe(nothing=1),
        truth.completions.handle("another").retry(retry),
        truth.completions.handle("one").retry(retry, expected_generation=1),
        truth.completions.handle("one").retry(expected_generation=1000),
        workflow.approval(""),
        workflow.approvals(limit=11),
        workflow.decide_approval(command),
    ):
        with pytest.raises(InputError):
            await call
    for wrong in (("activation", "x"), ("task", "")):
        with pytest.raises(InputError):
            CompletionTarget(*wrong)
    for command_class in (CompletionSubscribeCommand, CompletionRetryCommand, ApprovalDecisionCommand):
        with pytest.raises(TypeError):
            command_class()
