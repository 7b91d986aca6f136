"""One operation per route: decoded command in, JSON value or encoded reply out, `Refusal` for everything refused.

The HTTP edge calls the methods of `Operations`; each is a plain function of the services and the command, in the
module of its subject.
"""

from __future__ import annotations

from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.delivery import AcquireCommand, ExtendSession, OpenSession, RenewCommand, SettleCommand
from protocol3.contract.models.tasks import (
    AttemptQuery,
    HistoryQuery,
    SubmitCommand,
    TaskCancel,
    TaskListQuery,
    TaskQuery,
)
from protocol3.contract.models.workflows import EventCommand, ForkCommand, LocalResultCommand, WorkflowRef
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.operations import activations, delivery, discovery, tasks, workflows
from protocol3.coordinator.services import Services


class Operations:
    """The coordinator as the HTTP edge sees it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def submit_task(self, command: SubmitCommand) -> JsonValue | bytes:
        return await tasks.submit_task(self._services, command)

    async def list_tasks(self, query: TaskListQuery) -> JsonValue | bytes:
        return await discovery.list_tasks(self._services, query)

    async def inspect_task(self, query: TaskQuery) -> JsonValue | bytes:
        return await tasks.inspect_task(self._services, query)

    async def task_status(self, query: TaskQuery) -> JsonValue | bytes:
        return await tasks.task_status(self._services, query)

    async def task_result(self, query: TaskQuery) -> JsonValue | bytes:
        return await tasks.task_result(self._services, query)

    async def task_history(self, query: HistoryQuery) -> JsonValue | bytes:
        return await tasks.task_history(self._services, query)

    async def inspect_attempt(self, query: AttemptQuery) -> JsonValue | bytes:
        return await tasks.inspect_attempt(self._services, query)

    async def cancel_task(self, command: TaskCancel) -> JsonValue | bytes:
        return await tasks.cancel_task(self._services, command)

    async def open_session(self, command: OpenSession) -> JsonValue | bytes:
        return await delivery.open_session(self._services, command)

    async def extend_session(self, command: ExtendSession) -> JsonValue | bytes:
        return await delivery.extend_session(self._services, command)

    async def acquire(self, command: AcquireCommand) -> JsonValue | bytes:
        return await delivery.acquire(self._services, command)

    async def renew(self, command: RenewCommand) -> JsonValue | bytes:
        return await delivery.renew(self._services, command)

    async def settle(self, command: SettleCommand) -> JsonValue | bytes:
        return await delivery.settle(self._services, command)

    async def confirm_quiescence(self, owner: LeaseOwner) -> JsonValue | bytes:
        return await delivery.confirm_quiescence(self._services, owner)

    async def submit_workflow(self, command: SubmitCommand) -> JsonValue | bytes:
        return await workflows.submit_workflow(self._services, command)

    async def workflow_status(self, query: WorkflowRef) -> JsonValue | bytes:
        return await workflows.workflow_status(self._services, query)

    async def workflow_result(self, query: WorkflowRef) -> JsonValue | bytes:
        return await workflows.workflow_result(self._services, query)

    async def cancel_workflow(self, command: WorkflowRef) -> JsonValue | bytes:
        return await workflows.cancel_workflow(self._services, command)

    async def send_event(self, command: EventCommand) -> JsonValue | bytes:
        return await workflows.send_event(self._services, command)

    async def activation_context(self, owner: LeaseOwner) -> JsonValue | bytes:
        return await activations.activation_context(self._services, owner)

    async def commit_local_result(self, command: LocalResultCommand) -> JsonValue | bytes:
        return await activations.commit_local_result(self._services, command)

    async def accept_fork(self, command: ForkCommand) -> JsonValue | bytes:
        return await activations.accept_fork(self._services, command)
