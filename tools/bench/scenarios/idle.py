"""A system full of workflows that wait: what it costs to hold them, and what others notice of them.

Two systems side by side, one of them full: every call goes to one and then to the other, so that both meet the machine
at the same moments. A tail is made of such moments.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bench.drivers.driving import CALM_PAUSE_S, quantiles
from bench.filling import OF_WORKFLOW, copy, waiting_workflow
from bench.own import Own, own_system
from bench.processes import cpu_seconds
from bench.scenarios import Figures, Metric, Options, in_turn
from bench.scripted import Scripted, waiting

ABOUT = "--rows waiting workflows (events, timers, joins, a third each) beside none: idle CPU, p99 of three commands"
PEERS = False
COMMANDS = ("acquire", "status", "submit")
METRICS = {
    **{f"cpu_{when}": Metric(unit="ms CPU/s of coordinator and database", better="less") for when in ("empty", "full")},
    **{f"{c}_p99_{when}": Metric(unit="ms", better="less") for c in COMMANDS for when in ("empty", "full")},
    **{
        f"{c}_{p}_ratio": Metric(unit=f"of the {p} when empty", better="less") for c in COMMANDS for p in ("p50", "p99")
    },
    "calls": Metric(unit="calls of each command, empty and full"),
}
KINDS = ("event", "timer", "join")
FAR_MS = 10 * 24 * 3600 * 1000
#: More than 200 in three seconds, the default: the p99 is not the greatest of a few.
CALLS_A_SECOND = 70

Calls = Mapping[str, Callable[[], Awaitable[Any]]]
"""By command."""


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder / "empty") as empty, own_system(folder / "full") as full:
        systems = {"empty": empty, "full": full}
        for kind in KINDS:
            workflow_id = await waiting_workflow(Scripted(full, f"filled {kind}"), waiting(kind, FAR_MS))
            await copy(full, OF_WORKFLOW, workflow_id, options.rows // len(KINDS))
        await _look(systems, -1, options)  # warm
        for number in range(options.rounds):
            yield await _look(systems, number, options)


async def _look(systems: Mapping[str, Own], number: int, options: Options) -> Figures:
    """What both cost when nothing happens, and how long they take for the same calls."""
    count = max(2, round(options.seconds * CALLS_A_SECOND))
    figures: Figures = {"calls": count}
    for when in in_turn(number, systems):
        figures[f"cpu_{when}"] = await _idle_cpu(systems[when], options.seconds)
    calls = {when: await _calls(own, f"idle {number}") for when, own in systems.items()}
    for command in COMMANDS:
        taken = await _in_turn(command, calls, count)
        told = {when: quantiles(seconds) for when, seconds in taken.items()}
        figures |= {f"{command}_p99_{when}": of["p99_ms"] for when, of in told.items()}
        for part in ("p50", "p99"):
            figures[f"{command}_{part}_ratio"] = told["full"][f"{part}_ms"] / told["empty"][f"{part}_ms"]
    return figures


async def _idle_cpu(own: Own, seconds: float) -> float:
    """Milliseconds of coordinator and database for each second."""
    pids = (own.pids["coordinator"], own.pids["database"])
    before = sum(map(cpu_seconds, pids))
    await asyncio.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - before) * 1000 / seconds


async def _calls(own: Own, queue: str) -> Calls:
    """Of one client on a queue of its own, with nothing left over from another round."""
    scripted = Scripted(own, queue)
    session = await scripted.open(1)
    task_id = await scripted.submit("tasks")
    await scripted.perform(await scripted.poll(session, 0, 1))
    sequence = itertools.count(2)
    return {
        "acquire": lambda: scripted.poll(session, 0, next(sequence), 0),
        "status": lambda: own.get("/v1/tasks/status", task_id=task_id),
        "submit": lambda: scripted.submit("tasks"),
    }


async def _in_turn(command: str, calls: Mapping[str, Calls], count: int) -> Mapping[str, list[float]]:
    """Seconds of so many calls to each system, who goes first in turns."""
    taken = defaultdict[str, list[float]](list)
    for number in range(count):
        for when in in_turn(number, calls):
            start = time.perf_counter()
            await calls[when][command]()
            taken[when].append(time.perf_counter() - start)
            await asyncio.sleep(CALM_PAUSE_S)
    return taken
