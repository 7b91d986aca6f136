"""The coordinator of these tests has test controls."""

from __future__ import annotations

from typing import Any

import pytest

from protocol3.coordinator.controls.edge import all_operations
from protocol3.coordinator.controls.parts import ControlledParts
from protocol3.coordinator.services import Services


@pytest.fixture
async def services(controlled: Any) -> Any:
    return controlled


@pytest.fixture
def flow(flow: Any, services: Services, controlled_parts: ControlledParts) -> Any:
    """Its commands are exchanges that rules may strike."""
    flow.operations = all_operations(services, controlled_parts.faults)
    return flow
