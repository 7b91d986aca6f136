"""`/metrics` of a whole process: what is counted, what never becomes a label, and outages."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from protocol3.coordinator.assembly import assemble
from protocol3.coordinator.background.passes import Passes
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.metrics.collection import Metrics, ProcessState
from protocol3.coordinator.metrics.endpoint import serving
from protocol3.coordinator.operations import operations
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import Addresses, serve
from protocol3.store.database import open_pool

SCOPE = {"tenant_id": "t", "namespace": "n"}
Samples = dict[tuple[str, tuple[str, ...]], float]


def get(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def samples(text: str) -> Samples:
    """Values by name and label values, in the order of the labels' names."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scraped(url: str) -> Samples:
    status, text = await asyncio.to_thread(get, url)
    assert status == 200
    return samples(text)


@pytest.fixture
async def bound(database: str, tmp_path: Path) -> AsyncIterator[Addresses]:
    """A process with metrics on a port of its own."""
    options = ServeOptions(
        listen_host="127.0.0.1", listen_port=0, metrics_listen=("127.0.0.1", 0), database_url=database, store=tmp_path
    )  # fmt: skip
    ready: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(options, ready=ready.set_result))
    await asyncio.wait([ready, task], return_when=asyncio.FIRST_COMPLETED, timeout=20)
    yield ready.result()
    task.cancel()
    await asyncio.wait([task], timeout=20)


async def test_exchanges_are_counted_by_route_method_and_status(bound):
    for body, status in ((b'{"scope": {"tenant_id": "t", "namespace": "n"}, "queue": "q", "concurrency": 1}', 200),
                         (b"{", 400)):  # fmt: skip
        assert (await asyncio.to_thread(get, bound.url + "/v1/worker-sessions", "POST", body))[0] == status
    await asyncio.to_thread(get, bound.url + "/health/ready")
    found = await scraped(bound.metrics_url)
    counted = {labels: value for (name, labels), value in found.items() if name == "protocol3_requests_total"}
    assert counted == {("POST", "/v1/worker-sessions", "200"): 1, ("POST", "/v1/worker-sessions", "400"): 1}
    assert found["protocol3_request_duration_seconds_count", ("/v1/worker-sessions",)] == 2
    assert found["protocol3_database_up", ()] == 1
    assert found["protocol3_tasks", ("queued",)] == 0
    assert found["protocol3_pool_connections", ()] >= 1
    assert found["protocol3_requests_in_progress", ()] == 0
    assert found["protocol3_background_passes_total", ("recovery", "succeeded")] >= 1
    assert ("protocol3_wakes_total", ("queue",)) in found


async def test_a_clients_words_become_no_label(bound):
    """Unknown paths and methods are one label each, however many there are."""
    for number in range(5):
        await asyncio.to_thread(get, f"{bound.url}/v1/secret-{number}?secret", "POST", b"")
        await asyncio.to_thread(get, f"{bound.url}/v1/tasks", f"SECRET{number}")
    status, text = await asyncio.to_thread(get, bound.metrics_url)
    assert status == 200
    assert "secret" not in text.lower()
    counted = {labels for name, labels in samples(text) if name == "protocol3_requests_total"}
    assert counted <= {
        ("POST", "unknown", "404"),
        ("unknown", "unknown", "400"),
        ("unknown", "/v1/tasks", "405"),
    }


async def test_the_port_serves_metrics_alone_and_no_other_does(bound):
    base = bound.metrics_url.removesuffix("/metrics")
    assert (await asyncio.to_thread(get, base + "/v1/tasks"))[0] == 404
    assert (await asyncio.to_thread(get, bound.metrics_url, "POST", b""))[0] == 405
    assert (await asyncio.to_thread(get, bound.url + "/metrics"))[0] == 404


class Assembled:
    """The parts of a process on a pool of one connection, with its metrics; `dsn` is the database of the gauges."""

    def __init__(self, pool: Any, programs: Any) -> None:
        self.health = Health(asyncio.get_running_loop().time)
        recovery: Passes = self.health.recovery
        self.services = assemble(pool, programs, recovery=recovery, workflow_recovery=recovery)
        self.metrics = Metrics()
        self.exchanges = Exchanges(operations(self.services), self.health, observers=[self.metrics.observe])
        self.state = ProcessState(self.services, self.health, self.exchanges)

    async def scrape(self, dsn: str) -> Samples:
        async with serving(self.metrics, self.state, dsn=dsn, host="127.0.0.1", port=0) as port:
            return await scraped(f"http://127.0.0.1:{port}/metrics")


@pytest.fixture
async def assembled(database: str, programs: Any) -> Any:
    pool = await open_pool(database, size=1)
    yield Assembled(pool, programs)
    await pool.close()


async def test_a_scrape_takes_no_connection_from_an_exchange(assembled, database):
    """With every connection of the pool in use it answers, and tells so."""
    async with assembled.services.pool.acquire():
        waiting = asyncio.create_task(assembled.services.pool.fetchval("select 1"))
        found = await assembled.scrape(database)
    assert await waiting == 1
    assert found["protocol3_database_up", ()] == 1
    assert found["protocol3_pool_connections_in_use", ()] == found["protocol3_pool_connections_max", ()] == 1
    assert found["protocol3_pool_waiting", ()] == 1


async def test_without_its_database_a_process_still_tells_of_itself(assembled):
    assembled.health.recovery.unavailable()
    found = await assembled.scrape("postgresql://127.0.0.1:1/nowhere")
    assert found["protocol3_database_up", ()] == 0
    assert found["protocol3_background_passes_total", ("recovery", "failed")] == 1
    assert not [name for name, _ in found if name in ("protocol3_tasks", "protocol3_waits", "protocol3_leases")]


async def test_an_address_in_use_is_refused_at_the_start(bound, database, tmp_path):
    port = int(bound.metrics_url.removesuffix("/metrics").rpartition(":")[2])
    options = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database, store=tmp_path)
    with pytest.raises(OSError, match="in use"):
        await serve(replace(options, metrics_listen=("127.0.0.1", port)), ready=print)
