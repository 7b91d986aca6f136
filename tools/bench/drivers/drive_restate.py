"""Restate: its server (npm binary, defaults) and a Python service on hypercorn.

drive_restate.py '{"server": BINARY, "folder": ...}'; `drive_restate.py serve PORT` is the service itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import restate
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector
from driving import serve

READY_S = 30


def application() -> Any:
    service = restate.Service("bench")

    def step() -> dict[str, bool]:
        return {"ok": True}

    @service.handler()
    async def trivial(ctx: restate.Context, given: int) -> dict[str, bool]:
        return await ctx.run_typed("step", step)

    @service.handler()
    async def steps(ctx: restate.Context, count: int) -> int:
        for number in range(count):
            await ctx.run_typed(f"step {number}", step)
        return count

    @service.handler()
    async def fan(ctx: restate.Context, width: int) -> int:
        await restate.gather(*(ctx.service_call(trivial, arg=n) for n in range(width)))
        return width

    return restate.app(services=[service])


async def serve_application(port: int) -> None:
    import hypercorn.asyncio

    config = hypercorn.Config()
    config.bind = [f"127.0.0.1:{port}"]
    # Defaults would close the connection to the server now and then.
    config.h2_max_concurrent_streams = config.keep_alive_max_requests = config.keep_alive_timeout = 2**31 - 1
    await hypercorn.asyncio.serve(application(), config)


class Restate:
    def __init__(self, http: ClientSession, ingress: str, processes: dict[str, int]) -> None:
        self._http, self._ingress, self.processes, self.pollers = http, ingress, processes, list[int]()

    async def trivial(self) -> None:
        await self._call("trivial", 1)

    async def steps(self, count: int) -> None:
        await self._call("steps", count)

    async def fan(self, width: int, kind: str) -> None:
        await self._call("fan", width)

    async def _call(self, handler: str, given: int) -> None:
        async with self._http.post(f"{self._ingress}/bench/{handler}", json=given) as reply:
            reply.raise_for_status()
            await reply.read()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def register(http: ClientSession, admin: int, service: int) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                where = {"uri": f"http://127.0.0.1:{service}"}
                async with http.post(f"http://127.0.0.1:{admin}/deployments", json=where) as reply:
                    if reply.status in (200, 201):
                        return
            except ClientError:
                pass
            await asyncio.sleep(0.1)


async def main(server: str, folder: str) -> None:
    admin, ingress, node, service = (free_port() for _ in range(4))
    words = {
        "RESTATE_BASE_DIR": folder,
        "RESTATE_LOG_FILTER": "error",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
    }
    with (Path(folder) / "server.log").open("wb") as log:
        engine = subprocess.Popen(
            [server, "--no-logo", "--listen-mode", "tcp"], env=os.environ | words, cwd=folder, stdout=log, stderr=log
        )
    program = subprocess.Popen([sys.executable, __file__, "serve", str(service)], stdout=2)
    try:
        async with ClientSession(connector=TCPConnector(limit=64), timeout=ClientTimeout(total=60)) as http:
            await register(http, admin, service)
            processes = {"server": engine.pid, "worker": program.pid}
            await serve(Restate(http, f"http://127.0.0.1:{ingress}", processes))
    finally:
        for process in (program, engine):
            process.kill()  # thrown away with its data: it need not stop in order
            process.wait()


if sys.argv[1] == "serve":
    asyncio.run(serve_application(int(sys.argv[2])))
else:
    asyncio.run(main(**json.loads(sys.argv[1])))
