"""One operation per route: decoded command in, JSON value or encoded reply out, `Refusal` for everything refused.

The HTTP edge calls the methods of `Operations`; each is a plain function of the services and the command, in the
module of its subject.
"""

from __future__ import annotations

from protocol3.contract.models.tasks import TaskCancel
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.operations import tasks
from protocol3.coordinator.services import Services


class Operations:
    """The coordinator as the HTTP edge sees it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def cancel_task(self, command: TaskCancel) -> JsonValue | bytes:
        return await tasks.cancel_task(self._services, command)
