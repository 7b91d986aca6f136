"""The five calls that change something, each with what it takes to do it, to do it again, and to count what it did."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
from ledgence.client import (
    AsyncClient,
    CancellationUncertain,
    Conflict,
    LedgenceError,
    SubmissionUncertain,
    TaskState,
    WorkflowCancellationUncertain,
    WorkflowEventUncertain,
    WorkflowState,
)

HELLO = {"program": "hello", "version": "1.0.0"}
MIXED = {"program": "mixed-workflow", "version": "1.0.1"}


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


class Mutation(ABC):
    """One change in a namespace of its own. Made with an undisturbed client, which is also asked what is stored."""

    route: ClassVar[str]
    uncertain: ClassVar[type[LedgenceError]]

    def __init__(self, truth: AsyncClient) -> None:
        self.truth = truth
        self.key = f"mutation:{uuid.uuid4()}"
        self.replayed: bool | None = None  # whether a repeated call was told so, where the reply says it

    async def arrange(self) -> None:  # noqa: B027  # a submission needs nothing
        """Make what must exist before."""

    @abstractmethod
    async def send(self, client: AsyncClient) -> Any:
        """The call; what identifies its effect."""

    @abstractmethod
    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        """The call repeated with what the error about its uncertainty kept."""

    @abstractmethod
    async def happened(self) -> bool | None:
        """Whether the change is stored, None where that cannot be read. Fails when it is stored more than once."""

    async def done_once(self) -> bool:
        """Whether the change is stored exactly once."""
        return await self.happened() is True


class SubmitTask(Mutation):
    route = "POST /v1/tasks"
    uncertain = SubmissionUncertain

    async def send(self, client: AsyncClient) -> Any:
        return (await client.tasks.submit(**HELLO, queue="idle", data={"n": 1}, idempotency_key=self.key)).id

    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        assert error.submission.idempotency_key == self.key
        return (await client.tasks.submit(error.submission)).id

    async def happened(self) -> bool | None:
        stored = (await self.truth.tasks.list()).items
        assert len(stored) <= 1
        return len(stored) == 1


class SubmitWorkflow(Mutation):
    route = "POST /v1/workflows"
    uncertain = SubmissionUncertain

    async def send(self, client: AsyncClient) -> Any:
        return (await client.workflows.submit(**MIXED, queue="idle", data={"n": 1}, idempotency_key=self.key)).id

    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        return (await client.workflows.submit(error.submission)).id

    async def happened(self) -> bool | None:
        stored = (await self.truth.tasks.list()).items  # the workflow's first activation
        assert len(stored) <= 1
        assert all(task.workflow_id and task.workflow_activation_id == task.task_id for task in stored)
        return len(stored) == 1


class CancelTask(Mutation):
    route = "POST /v1/tasks/cancel"
    uncertain = CancellationUncertain

    async def arrange(self) -> None:
        self.task = await self.truth.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=self.key)

    async def send(self, client: AsyncClient) -> Any:
        return await client.tasks.handle(self.task.id).cancel()

    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        assert error.task.id == self.task.id
        return await client.tasks.handle(error.task.id).cancel()

    async def happened(self) -> bool | None:
        return (await self.task.status()).state is TaskState.CANCELLED


class CancelWorkflow(Mutation):
    route = "POST /v1/workflows/cancel"
    uncertain = WorkflowCancellationUncertain

    async def arrange(self) -> None:
        self.workflow = await self.truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=self.key)

    async def send(self, client: AsyncClient) -> Any:
        return (await client.workflows.handle(self.workflow.id).cancel()).workflow_id

    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        assert error.workflow.id == self.workflow.id
        return (await client.workflows.handle(error.workflow.id).cancel()).workflow_id

    async def happened(self) -> bool | None:
        return (await self.workflow.status()).state in (WorkflowState.CANCELLING, WorkflowState.CANCELLED)


class SendEvent(Mutation):
    route = "POST /v1/workflows/events"
    uncertain = WorkflowEventUncertain

    async def arrange(self) -> None:
        self.workflow = await self.truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=self.key)
        self.event = event()

    async def send(self, client: AsyncClient) -> Any:
        receipt = await client.workflows.handle(self.workflow.id).send_event(key="paid", event=self.event)
        return receipt.event_id

    async def again(self, client: AsyncClient, error: LedgenceError) -> Any:
        receipt = await client.workflows.handle(self.workflow.id).send_event(error.command)
        self.replayed = receipt.already_accepted
        return receipt.event_id

    async def happened(self) -> bool | None:
        return None  # no call reads the inbox

    async def done_once(self) -> bool:
        """The key is taken by this event, and this event by the key."""
        for key, other in (("paid", event()), ("other", self.event)):
            with pytest.raises(Conflict):
                await self.workflow.send_event(key=key, event=other)
        return True


ALL = (SubmitTask, SubmitWorkflow, CancelTask, CancelWorkflow, SendEvent)
