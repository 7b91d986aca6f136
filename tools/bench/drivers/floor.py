"""The least that a durable exchange costs: `floor.py DSN` serves requests that commit one row each; prints its URL."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import asyncpg
import uvloop
from aiohttp import web

from protocol3.contract.strict_json import decode, encode


async def main(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=8, max_size=8) as pool:
        await pool.execute("create table if not exists public.floor (id bigint primary key, body bytea not null)")

        async def handle(request: web.BaseRequest) -> web.Response:
            body = await request.read()
            given: Any = decode(body)
            await pool.execute("insert into public.floor values ($1, $2) on conflict do nothing", given["id"], body)
            return web.Response(body=encode({"id": given["id"]}), content_type="application/json")

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print("http://{}:{}/".format(*runner.addresses[0]), flush=True)
        await asyncio.Event().wait()


uvloop.run(main(sys.argv[1]))
