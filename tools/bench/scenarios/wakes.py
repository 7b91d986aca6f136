"""One task for many consumers that wait: how soon is it in a worker's hands, and who else was woken?

After a pause caches are cold, and an exchange takes up to three times as long as right after another. So the floor is
taken at the same pace, an exchange for each submission.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.drivers.driving import quantiles
from bench.own import Own, own_system
from bench.scenarios import Figures, Metric, Options
from bench.scenarios._floor import floor_of
from bench.scripted import Scripted

ABOUT = "long polls: from submission to an assignment with --consumers idle, claim statements per task"
PEERS = False
METRICS = {
    "wake_p50_ms": Metric(unit="ms, submission included", better="less"),
    "wake_p99_ms": Metric(unit="ms, submission included", better="less"),
    "submit_p50_ms": Metric(unit="ms, of which the submission"),
    "floor_p50_ms": Metric(unit="ms, an exchange of the floor"),
    "claims_per_task": Metric(unit="claim statements", better="less"),
}
#: What looks for tasks; a poll that arrives while there are none is judged by another statement.
CLAIM = "row_number() over (order by k.available_at"
TASKS = 50
PAUSE_S = 0.02
SESSION = 100


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, counting=True) as own, floor_of(own) as floor:
        for number in range(options.rounds):
            yield await wakes(own, floor, Scripted(own, f"wakes {number}"), options.consumers)


async def wakes(own: Own, floor: Callable[[], Awaitable[None]], scripted: Scripted, consumers: int) -> Figures:
    """A round. Each submission finds everybody waiting but the consumer of the one before, on its way back at most."""
    arrived: asyncio.Queue[float] = asyncio.Queue()
    settled: asyncio.Queue[None] = asyncio.Queue()

    async def consume(session: str, consumer: int) -> None:
        sequence = 1
        while True:
            assignment: Any = await scripted.poll(session, consumer, sequence)
            if assignment is not None:
                arrived.put_nowait(time.perf_counter())
                await scripted.perform(assignment)
                settled.put_nowait(None)
            sequence += 1

    sessions = [await scripted.open(SESSION) for _ in range(-(-consumers // SESSION))]
    waiting = [asyncio.create_task(consume(sessions[n // SESSION], n % SESSION)) for n in range(consumers)]
    await asyncio.sleep(1 + consumers / 500)  # until they wait; a poll on its way would only be quicker
    taken, submits, floors = list[float](), list[float](), list[float]()
    before = _claims(await own.statements())
    for _ in range(TASKS):
        began = time.perf_counter()
        await scripted.submit("tasks")
        submits.append(time.perf_counter() - began)
        taken.append(await arrived.get() - began)
        await settled.get()
        await asyncio.sleep(PAUSE_S)
        began = time.perf_counter()
        await floor()
        floors.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    claims = _claims(await own.statements()) - before
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    told = quantiles(taken)
    return {
        "wake_p50_ms": told["p50_ms"],
        "wake_p99_ms": told["p99_ms"],
        "submit_p50_ms": quantiles(submits)["p50_ms"],
        "floor_p50_ms": quantiles(floors)["p50_ms"],
        "claims_per_task": claims / TASKS,
    }


def _claims(statements: Any) -> int:
    return sum(calls for text, calls in statements.items() if CLAIM in text)
