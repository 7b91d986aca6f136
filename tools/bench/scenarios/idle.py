"""A system full of workflows that wait: what it costs to hold them, and what others notice of them.

The same looks on the same system before and after the tables are filled; a figure of `_empty` is before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from bench.drivers.driving import calm
from bench.filling import OF_WORKFLOW, copy, waiting_workflow
from bench.own import Own, own_system
from bench.processes import cpu_seconds
from bench.scenarios import Figures, Metric, Options
from bench.scripted import Scripted, waiting

ABOUT = "--rows waiting workflows (half events, half timers): idle CPU, p99 of submit, status and empty acquire"
PEERS = False
COMMANDS = ("submit", "status", "acquire")
METRICS = {
    **{f"cpu_{when}": Metric(unit="ms CPU/s of coordinator and database", better="less") for when in ("empty", "full")},
    **{f"{c}_p99_{when}": Metric(unit="ms", better="less") for c in COMMANDS for when in ("empty", "full")},
}
FAR_MS = 10 * 24 * 3600 * 1000
CALLS = 60


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=False) as own:
        scripted = Scripted(own)
        event = await waiting_workflow(scripted, waiting("event"))
        timer = await waiting_workflow(scripted, waiting("timer", FAR_MS))
        empty = [await _look(own, "empty", options) for _ in range(options.rounds)]
        await copy(own, OF_WORKFLOW, event, options.rows // 2)
        await copy(own, OF_WORKFLOW, timer, options.rows // 2)
        for figures in empty:
            yield figures | await _look(own, "full", options)


async def _look(own: Own, when: str, options: Options) -> Figures:
    pids = (own.pids["coordinator"], own.pids["database"])
    before = sum(map(cpu_seconds, pids))
    await asyncio.sleep(options.seconds)
    figures = {f"cpu_{when}": (sum(map(cpu_seconds, pids)) - before) * 1000 / options.seconds}
    scripted = Scripted(own, f"idle {when} {id(figures)}")
    session = await scripted.open(1)
    task_id = await scripted.submit("tasks")
    await scripted.perform(await scripted.poll(session, 0, 1))
    sequence = iter(range(2, 2 + CALLS))
    calls = {
        "acquire": lambda: scripted.poll(session, 0, next(sequence), 0),
        "status": lambda: own.get("/v1/tasks/status", task_id=task_id),
        "submit": lambda: scripted.submit("tasks"),
    }
    for name, call in calls.items():
        figures[f"{name}_p99_{when}"] = (await calm(call, CALLS))["p99_ms"]
    return figures
