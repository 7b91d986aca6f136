"""`./dev bench`: figures of the whole system on this machine, as real processes over loopback.

Figures are medians of several rounds with their spread; compare only figures of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from system import System, temporary_folder

VALUES = [1, 2, 3]
EXPECTED = {"local": {"count": 3, "sum": 6}, "double": 12, "triple": 18}


class Client:
    """Just enough of a client: keep-alive connections, replies read as JSON, anything but 200 is an error."""

    def __init__(self, system: System, session: aiohttp.ClientSession) -> None:
        self.system, self.session = system, session
        self.scope = {"tenant_id": system.tenant, "namespace": system.namespace}

    async def get(self, path: str, **query: str) -> Any:
        async with self.session.get(self.system.url + path, params=self.scope | query) as reply:
            reply.raise_for_status()
            return await reply.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.session.post(self.system.url + path, json=body) as reply:
            reply.raise_for_status()
            return await reply.json()

    async def submit(self, space: str, program: str, version: str, queue: str, key: str, data: Any) -> Any:
        work = {"queue": queue, "program": {"id": program, "version": version}, "data": data}
        return await self.post(f"/v1/{space}", {"idempotency_key": key, "input": self.scope | work})


async def many(total: int, side_by_side: int, one: Callable[[int], Awaitable[None]]) -> float:
    """`total` calls, so many at a time; calls per second."""
    numbers = iter(range(total))
    began = time.perf_counter()

    async def lane() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(lane() for _ in range(side_by_side)))
    return total / (time.perf_counter() - began)


async def status_reads(client: Client, round_: int, *, side_by_side: int) -> float:
    """GET /v1/tasks/status of one queued task."""
    task = await client.submit("tasks", "hello", "1.0.0", "idle", f"status:{round_}:{side_by_side}", None)

    async def one(_: int) -> None:
        await client.get("/v1/tasks/status", task_id=task["task_id"])

    return await many(500 if side_by_side == 1 else 2000, side_by_side, one)


async def mixed_workflows(client: Client, round_: int, *, side_by_side: int) -> float:
    """The mixed fork workflow from submission to result: three workflows, five activations, one timer each."""

    async def one(number: int) -> None:
        key = f"mixed:{round_}:{side_by_side}:{number}"
        data = {"values": VALUES, "queue": client.system.queue}
        workflow = await client.submit("workflows", "mixed-workflow", "1.0.1", client.system.queue, key, data)
        pause = 0.002
        while True:
            told = await client.get("/v1/workflows/result", workflow_id=workflow["workflow_id"])
            if told["outcome"] is not None:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.01 * side_by_side)  # the looking itself must not be the load
        assert told["outcome"] == {"kind": "succeeded", "output": EXPECTED}, told

    return await many(10 if side_by_side == 1 else 96, side_by_side, one)


SCENARIOS: dict[str, tuple[str, Callable[..., Awaitable[float]], int]] = {
    "status-1": ("GET /v1/tasks/status, 1 connection, requests/s", status_reads, 1),
    "status-16": ("GET /v1/tasks/status, 16 connections, requests/s", status_reads, 16),
    "mixed-1": ("mixed workflow, one at a time, workflows/s", mixed_workflows, 1),
    "mixed-32": ("mixed workflow, 32 submitters, one worker N=4, workflows/s", mixed_workflows, 32),
}


async def measure(system: System, names: list[str], rounds: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        client = Client(system, session)
        for name in names:
            _, scenario, side_by_side = SCENARIOS[name]
            await scenario(client, -1, side_by_side=side_by_side)  # warms connections, plans and processes
            figures[name] = [await scenario(client, n, side_by_side=side_by_side) for n in range(rounds)]
            print(f"{name}: {rounds} rounds done", file=sys.stderr)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("scenario", nargs="*", choices=[[], *SCENARIOS], help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    with temporary_folder("bench") as folder, System(folder, tenant="bench") as system:
        for program in ("mixed-workflow", "hello"):
            system.publish(program)
        system.start_coordinator()
        system.start_worker(concurrency=4)
        figures = asyncio.run(measure(system, options.scenario or list(SCENARIOS), options.rounds))
    if options.json:
        print(json.dumps(figures))
        return 0
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{SCENARIOS[name][0]:<62} {median:9.1f}  ({min(values):.1f} to {max(values):.1f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
