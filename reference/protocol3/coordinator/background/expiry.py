"""The agenda handler of leases: recovers attempts whose authority ran out (DLV-110 to DLV-113)."""

from __future__ import annotations

from protocol3.coordinator.services import Services
from protocol3.core.expiry import expire
from protocol3.core.records import Agenda
from protocol3.store.loads import tasks as loads


async def handle_lease(services: Services, entry: Agenda) -> None:
    """End the attempt of this task if its authority is over, or move the entry to when that will be."""
    await services.transitions.run(
        ("task", entry.ref),
        loads.current(services.transitions.sql, entry.scope_id, entry.ref),
        lambda loaded, fresh: expire(entry, *loaded, fresh),
    )
