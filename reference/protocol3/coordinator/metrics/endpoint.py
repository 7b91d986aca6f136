"""`/metrics` on a port of its own, beside the contract's routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from protocol3.coordinator.metrics.collection import Metrics, ProcessState
from protocol3.store.gauges import Gauges

PATH = "/metrics"


@asynccontextmanager
async def serving(metrics: Metrics, state: ProcessState, *, dsn: str, host: str, port: int) -> AsyncIterator[int]:
    """Answer scrapes until the block is left; the port that was bound. Raises OSError.

    A scrape waits for nothing but the gauges of the database, which have a time of their own; the text is made in a
    thread.
    """
    gauges = Gauges(dsn)

    async def scrape(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != PATH:
            return web.Response(status=404)
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        found = await gauges.read()
        body = await asyncio.to_thread(metrics.render, state.read(), found)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"})

    runner = web.ServerRunner(web.Server(scrape, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        gauges.close()
