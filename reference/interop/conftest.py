"""What the published peers meet: a running system, named by the environment (see tools/interop.py)."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import disturbed
import pytest
import surface
from ledgence.client import AsyncClient

URL = os.environ["PROTOCOL3_URL"]
TENANT, NAMESPACE = os.environ["PROTOCOL3_SCOPE"].split("/")
QUEUES = os.environ["PROTOCOL3_QUEUES"].split(",")

surface.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What was used of the surface is judged at the end."""
    items.sort(key=lambda item: item.path.name == "test_surface.py")


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    async with AsyncClient(URL, tenant=TENANT, namespace=NAMESPACE) as opened:
        yield opened


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A submission key of this test alone."""
    return f"{request.node.name}:{uuid.uuid4()}"[-255:]


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that a worker serves: with our runtime helper, and with the published one."""
    name: str = request.param
    return name


@pytest.fixture
def idle_queue() -> str:
    """A queue that nobody serves."""
    return f"idle-{uuid.uuid4()}"


@pytest.fixture(scope="session")
def coordinator() -> Iterator[disturbed.Coordinator]:
    """The coordinator with test controls."""
    process = disturbed.Coordinator()
    process.start()
    yield process
    process.kill()


@dataclass(frozen=True)
class Room:
    """A namespace of its own: what it holds can be counted, and faults disturb nobody else.

    `truth` asks a coordinator that nobody disturbs; `shaken` and `hasty`, which has little patience, the disturbed one.
    """

    truth: AsyncClient
    shaken: AsyncClient
    hasty: AsyncClient
    faults: disturbed.Faults


@pytest.fixture
async def new_room(coordinator: disturbed.Coordinator) -> AsyncIterator[Callable[[], Awaitable[Room]]]:
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def opened() -> Room:
            namespace = f"alone-{uuid.uuid4()}"
            clients = [
                AsyncClient(url, tenant=TENANT, namespace=namespace, request_timeout=seconds)
                for url, seconds in ((URL, 30.0), (disturbed.URL, 30.0), (disturbed.URL, 0.5))
            ]
            for one in clients:
                await stack.enter_async_context(one)
            return Room(*clients, disturbed.Faults(session, {"tenant_id": TENANT, "namespace": namespace}))

        yield opened


@pytest.fixture
async def room(new_room: Callable[[], Awaitable[Room]]) -> Room:
    return await new_room()


@pytest.fixture
def truth(room: Room) -> AsyncClient:
    return room.truth


@pytest.fixture
def shaken(room: Room) -> AsyncClient:
    return room.shaken


@pytest.fixture
def hasty(room: Room) -> AsyncClient:
    return room.hasty


@pytest.fixture
def faults(room: Room) -> disturbed.Faults:
    return room.faults
