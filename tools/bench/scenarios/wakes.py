"""One task for many consumers that wait: how soon is it in a worker's hands, and who else was woken?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.drivers.driving import quantiles
from bench.own import Own, own_system
from bench.scenarios import Figures, Metric, Options
from bench.scripted import Scripted

ABOUT = "long polls: from submission to an assignment with --consumers idle, claim statements per task"
PEERS = False
METRICS = {
    "wake_p50_ms": Metric(unit="ms, submission included", better="less"),
    "wake_p99_ms": Metric(unit="ms, submission included", better="less"),
    "submit_p50_ms": Metric(unit="ms, of which the submission"),
    "claims_per_task": Metric(unit="claim statements", better="less"),
}
CLAIM = "as candidate, d as data"
TASKS = 50
PAUSE_S = 0.02
SESSION = 100


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=False, counting=True) as own:
        for number in range(options.rounds):
            yield await _round(own, Scripted(own, f"wakes {number}"), options.consumers)


async def _round(own: Own, scripted: Scripted, consumers: int) -> Figures:
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def consume(session: str, consumer: int) -> None:
        sequence = 1
        while True:
            assignment: Any = await scripted.poll(session, consumer, sequence)
            if assignment is not None:
                arrived.put_nowait(time.perf_counter())
                await scripted.perform(assignment)
            sequence += 1

    sessions = [await scripted.open(SESSION) for _ in range(-(-consumers // SESSION))]
    waiting = [asyncio.create_task(consume(sessions[n // SESSION], n % SESSION)) for n in range(consumers)]
    await asyncio.sleep(1 + consumers / 500)  # until they wait; a poll on its way would only be quicker
    wakes, submits = list[float](), list[float]()
    before = _claims(await own.statements())
    for _ in range(TASKS):
        began = time.perf_counter()
        await scripted.submit("tasks")
        submits.append(time.perf_counter() - began)
        wakes.append(await arrived.get() - began)
        await asyncio.sleep(PAUSE_S)
    claims = _claims(await own.statements()) - before
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    told = quantiles(wakes)
    return {
        "wake_p50_ms": told["p50_ms"],
        "wake_p99_ms": told["p99_ms"],
        "submit_p50_ms": quantiles(submits)["p50_ms"],
        "claims_per_task": claims / TASKS,
    }


def _claims(statements: Any) -> int:
    return sum(calls for text, calls in statements.items() if CLAIM in text)
