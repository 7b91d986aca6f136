"""What a coordinator that starts on the database of another one finds (chapter 41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol3.coordinator.assembly import assemble, running


@pytest.fixture
def another(pool: Any, programs: Any, client: Any) -> Callable[[], Any]:
    """A coordinator of its own on the same database, entered with the client's commands."""

    class Ignored:
        def succeeded(self, now: float) -> None: ...

        def unavailable(self) -> None: ...

    class Another:
        async def __aenter__(self) -> Any:
            services = assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored())
            self.coordinator = running(services)
            return type(client)(await self.coordinator.__aenter__(), client.scope["namespace"])

        async def __aexit__(self, *error: object) -> None:
            await self.coordinator.__aexit__(None, None, None)

    return Another


async def test_state_and_receipts_survive(client, another, refused):
    """DLV-121, DLV-312: tasks, sessions, cursors, leases and receipts; every replay works on the second one."""
    task = await client.submit()
    session = await client.open()
    assignment = await client.assignment(session)
    authority = await client.renew(assignment)

    async with another() as second:
        assert await second.submit() == await client.submit()
        assert (await second.assignment(session))["lease"] == (await client.assignment(session))["lease"]
        replayed = await second.renew(assignment)
        assert replayed["expires_at"] == authority["expires_at"]
        assert (await second.renew(assignment, 2, "keep_alive"))["renew_sequence"] == 2
        receipt = await second.settle(assignment)

    async with another() as third:
        assert await third.settle(assignment) == receipt | {"already_accepted": True}
        assert await refused(third.poll(session, 0)) == "out_of_order"
        assert (await third.poll(session, 1))["disposition"] == "ownership_lost"
        assert await third.poll(session, 2) == {"disposition": "empty", "sequence": 2}
        assert (await third.read("task_result", task["task_id"]))["outcome"]["output"] == "done"
