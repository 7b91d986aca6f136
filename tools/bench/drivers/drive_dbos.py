"""DBOS: a client that enqueues, and a second process that takes from the queue, as with an engine that is a server.

drive_dbos.py '{"dsn": ...}'; `drive_dbos.py work DSN` is the second process. Polls every 10 ms instead of every second.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import Any

from dbos import DBOS, DBOSClient
from driving import serve

QUEUE, POLL_S = "bench", 0.01


@DBOS.step()
async def step(number: int) -> dict[str, bool]:
    return {"ok": True}


@DBOS.workflow()
async def trivial(number: int) -> dict[str, bool]:
    return await step(number)


@DBOS.workflow()
async def steps(count: int) -> int:
    for number in range(count):
        await step(number)
    return count


@DBOS.workflow()
async def fan(width: int) -> int:
    children = [await DBOS.start_workflow_async(trivial, n) for n in range(width)]
    return len([await child.get_result() for child in children])


def work(dsn: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": dsn,
            "log_level": "ERROR",
            "console_log_level": "ERROR",
            "application_version": "1",
            "executor_id": str(os.getpid()),
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_S, worker_concurrency=64)
    print("ready", flush=True)
    threading.Event().wait()


class Dbos:
    def __init__(self, client: Any, worker: int) -> None:
        self._client, self.processes, self.pollers = client, {"worker": worker}, [worker]

    async def trivial(self) -> None:
        await self._run(trivial, 1)

    async def steps(self, count: int) -> None:
        await self._run(steps, count)

    async def fan(self, width: int, kind: str) -> None:
        await self._run(fan, width)

    async def _run(self, workflow: Any, given: int) -> None:
        where = {"queue_name": QUEUE, "workflow_name": workflow.__qualname__}
        handle = await self._client.enqueue_async(where, given)
        await handle.get_result(polling_interval_sec=POLL_S)


async def main(dsn: str) -> None:
    worker = subprocess.Popen([sys.executable, __file__, "work", dsn], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    try:
        while b"ready" not in (line := await asyncio.to_thread(worker.stdout.readline)):
            if not line:
                raise RuntimeError("the DBOS worker did not start")
        client = DBOSClient(system_database_url=dsn)
        await serve(Dbos(client, worker.pid))
        client.destroy()
    finally:
        worker.kill()
        worker.wait()


if sys.argv[1] == "work":
    work(sys.argv[2])
else:
    asyncio.run(main(**json.loads(sys.argv[1])))
