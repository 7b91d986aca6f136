"""A system full of workflows that wait: what it costs to hold them, and what others notice of them.

Two systems side by side, one of them full, are looked at in turns, so that a ratio is of the same round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from bench.drivers.driving import calm
from bench.filling import OF_WORKFLOW, copy, waiting_workflow
from bench.own import Own, own_system
from bench.processes import cpu_seconds
from bench.scenarios import Figures, Metric, Options, in_turn
from bench.scripted import Scripted, waiting

ABOUT = "--rows waiting workflows (events, timers, joins, a third each) beside none: idle CPU, p99 of three commands"
PEERS = False
COMMANDS = ("submit", "status", "acquire")
METRICS = {
    **{f"cpu_{when}": Metric(unit="ms CPU/s of coordinator and database", better="less") for when in ("empty", "full")},
    **{f"{c}_p99_{when}": Metric(unit="ms", better="less") for c in COMMANDS for when in ("empty", "full")},
    **{f"{c}_p99_ratio": Metric(unit="of the p99 when empty", better="less") for c in COMMANDS},
    "calls": Metric(unit="calls of each command, empty and full"),
}
KINDS = ("event", "timer", "join")
FAR_MS = 10 * 24 * 3600 * 1000
#: More than 200 in three seconds, the default: the p99 is not the greatest of a few.
CALLS_A_SECOND = 70


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder / "empty") as empty, own_system(folder / "full") as full:
        systems = {"empty": empty, "full": full}
        for kind in KINDS:
            workflow_id = await waiting_workflow(Scripted(full, f"filled {kind}"), waiting(kind, FAR_MS))
            await copy(full, OF_WORKFLOW, workflow_id, options.rows // len(KINDS))
        for when in systems:
            await _look(systems[when], f"warm {when}", options)
        for number in range(options.rounds):
            figures: Figures = {"calls": _calls(options)}
            for when in in_turn(number, systems):
                told = await _look(systems[when], f"round {number}", options)
                figures |= {f"{name}_{when}": value for name, value in told.items()}
            yield figures | {f"{c}_p99_ratio": figures[f"{c}_p99_full"] / figures[f"{c}_p99_empty"] for c in COMMANDS}


def _calls(options: Options) -> int:
    return max(2, round(options.seconds * CALLS_A_SECOND))


async def _look(own: Own, name: str, options: Options) -> Figures:
    pids = (own.pids["coordinator"], own.pids["database"])
    before = sum(map(cpu_seconds, pids))
    await asyncio.sleep(options.seconds)
    figures = {"cpu": (sum(map(cpu_seconds, pids)) - before) * 1000 / options.seconds}
    scripted = Scripted(own, f"idle {name}")  # a queue of this round, with nothing left over from another
    session = await scripted.open(1)
    task_id = await scripted.submit("tasks")
    await scripted.perform(await scripted.poll(session, 0, 1))
    count = _calls(options)
    sequence = iter(range(2, 2 + count))
    calls = {
        "acquire": lambda: scripted.poll(session, 0, next(sequence), 0),
        "status": lambda: own.get("/v1/tasks/status", task_id=task_id),
        "submit": lambda: scripted.submit("tasks"),
    }
    for command, call in calls.items():
        figures[f"{command}_p99"] = (await calm(call, count))["p99_ms"]
    return figures
