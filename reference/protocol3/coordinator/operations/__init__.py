"""One operation per route: decoded command in, JSON value or encoded reply out, `Refusal` for everything refused.

Each is a plain function of the services and the command, in the module of its subject, named as its route names it.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from protocol3.coordinator.operations import activations, delivery, discovery, tasks, workflows
from protocol3.coordinator.services import Services

OPERATIONS = (
    tasks.submit_task,
    discovery.list_tasks,
    tasks.inspect_task,
    tasks.task_status,
    tasks.task_result,
    tasks.task_history,
    tasks.inspect_attempt,
    tasks.cancel_task,
    delivery.open_session,
    delivery.extend_session,
    delivery.acquire,
    delivery.renew,
    delivery.settle,
    delivery.confirm_quiescence,
    workflows.submit_workflow,
    workflows.workflow_status,
    workflows.workflow_result,
    workflows.cancel_workflow,
    workflows.send_event,
    activations.activation_context,
    activations.commit_local_result,
    activations.accept_fork,
)


def operations(services: Services) -> SimpleNamespace:
    """The coordinator as the HTTP edge sees it: every operation, by its name, waiting for a command."""
    return SimpleNamespace(**{operation.__name__: partial(operation, services) for operation in OPERATIONS})
