"""Absurd with polls every 5 ms (its default is 250): a client, and workers in other processes.

drive_absurd.py '{"dsn": ...}'; `drive_absurd.py work DSN QUEUE` is a worker. Its SQL comes with its command line
tool. It wants the extension uuid-ossp, for servers before 18 alone; packaged servers have none.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd
from driving import serve

QUEUES = ("bench", "children")
POLL_S, CLIENTS, CONCURRENCY = 0.005, 8, 32
EXTENSION = 'create extension if not exists "uuid-ossp";'


async def work(dsn: str, queue: str) -> None:
    app, children = AsyncAbsurd(dsn, queue_name=queue), AsyncAbsurd(dsn, queue_name=QUEUES[1])

    async def step() -> dict[str, bool]:
        return {"ok": True}

    @app.register_task(name="trivial")
    async def trivial(given: Any, ctx: Any) -> Any:
        return await ctx.step("step", step)

    @app.register_task(name="steps")
    async def steps(given: Any, ctx: Any) -> Any:
        for number in range(given["count"]):
            await ctx.step(f"step {number}", step)
        return given["count"]

    @app.register_task(name="fan")
    async def fan(given: Any, ctx: Any) -> Any:
        async def spawn() -> str:
            return str((await children.spawn("trivial", {}, queue=QUEUES[1]))["task_id"])

        ids = [await ctx.step(f"spawn {number}", spawn) for number in range(given["width"])]
        return [(await ctx.await_task_result(id, queue_name=QUEUES[1])).state for id in ids]

    await app.start_worker(concurrency=CONCURRENCY, poll_interval=POLL_S)


class Absurd:
    def __init__(self, clients: list[Any], workers: dict[str, int]) -> None:
        self._clients, self.processes, self.pollers = itertools.cycle(clients), workers, list(workers.values())

    async def trivial(self) -> None:
        await self._run("trivial", {})

    async def steps(self, count: int) -> None:
        await self._run("steps", {"count": count})

    async def fan(self, width: int, kind: str) -> None:
        await self._run("fan", {"width": width})

    async def _run(self, name: str, given: Any) -> None:
        client = next(self._clients)
        task_id = (await client.spawn(name, given, queue=QUEUES[0]))["task_id"]
        while (result := await client.fetch_task_result(task_id)).state not in ("completed", "failed", "cancelled"):
            await asyncio.sleep(POLL_S)
        if result.state != "completed":
            raise RuntimeError(f"task {task_id} {result.state}")


async def main(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL.replace(EXTENSION, ""))
    for queue in QUEUES:
        owner = AsyncAbsurd(dsn, queue_name=queue)
        await owner.create_queue()
        await owner.close()
    workers = [subprocess.Popen([sys.executable, __file__, "work", dsn, queue], stdout=2) for queue in QUEUES]
    try:
        clients = [AsyncAbsurd(dsn, queue_name=QUEUES[0]) for _ in range(CLIENTS)]
        driver = Absurd(clients, {"worker": workers[0].pid, "worker of children": workers[1].pid})
        await driver.trivial()
        await serve(driver)
        for client in clients:
            await client.close()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


if sys.argv[1] == "work":
    asyncio.run(work(*sys.argv[2:]))
else:
    asyncio.run(main(**json.loads(sys.argv[1])))
