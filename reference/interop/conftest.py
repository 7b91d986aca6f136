"""What the published peers meet: a running system, named by the environment (see tools/interop.py)."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator

import pytest
from ledgence.client import AsyncClient

URL = os.environ["PROTOCOL3_URL"]
TENANT, NAMESPACE = os.environ["PROTOCOL3_SCOPE"].split("/")
QUEUES = os.environ["PROTOCOL3_QUEUES"].split(",")


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    async with AsyncClient(URL, tenant=TENANT, namespace=NAMESPACE) as opened:
        yield opened


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A submission key of this test alone."""
    return f"{request.node.name}:{uuid.uuid4()}"


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that a worker serves: with our runtime helper, and with the published one."""
    name: str = request.param
    return name


@pytest.fixture
def idle_queue() -> str:
    """A queue that nobody serves."""
    return f"idle-{uuid.uuid4()}"
