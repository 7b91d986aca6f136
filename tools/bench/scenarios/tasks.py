"""Tasks at ten times the published platform's default load, through a real worker: do they keep up?

They are offered at their rate for `--seconds`, with at most 64 submissions under way; the others wait here. The backlog
is what was offered and is not settled, wherever it waits. All figures are of those seconds.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.own import Own, own_system
from bench.processes import cpu_seconds
from bench.scenarios import Figures, Metric, Options

ABOUT = "tasks at 580/s, ten times the published default load: accepted, settled, the backlog, CPU of each"
PEERS = False
PROCESSES = ("coordinator", "database", "worker")
METRICS = {
    "offered_per_second": Metric(unit="tasks/s"),
    "accepted_per_second": Metric(unit="tasks/s", better="more"),
    "settled_per_second": Metric(unit="tasks/s", better="more"),
    "backlog_growth": Metric(unit="tasks/s in the second half, least squares; 0 where it shrinks", better="less"),
    "backlog_most": Metric(unit="tasks at a time in the second half", better="less"),
    "backlog": Metric(unit="tasks at the end", better="less"),
    **{f"{name}_cpu": Metric(unit="ms CPU/settled task", better="less") for name in (*PROCESSES, "client")},
    "cpu": Metric(unit="ms CPU/settled task of all four", better="less"),
    "cores": Metric(unit="cores busy with it"),
}
RATE = 580
UNDER_WAY = 64
#: Looks at the backlog in a round.
LOOKS = 20
SETTLED = "select count(terminal_at), count(*) from task"


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, slots=options.slots) as own:
        await Load(own, "warm", min(1.0, options.seconds)).run()
        for number in range(options.rounds):
            yield await Load(own, f"round {number}", options.seconds).run()


class Load:
    """Tasks offered for so many seconds."""

    def __init__(self, own: Own, name: str, seconds: float) -> None:
        self._own, self._name, self._seconds = own, name, seconds
        self._line = asyncio.Semaphore(UNDER_WAY)
        self._offered = self._accepted = 0
        self._over = False
        #: Seconds since the beginning, settled, backlog.
        self._looks: list[tuple[float, int, int]] = []

    async def run(self) -> Figures:
        """Its figures, when everything that was submitted is settled; what still waited here is given up."""
        settled, _ = await self._own.database.fetchrow(SETTLED) or (0, 0)
        began, before = time.perf_counter(), self._cpu()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(began, settled))
            while (elapsed := min(time.perf_counter() - began, self._seconds)) < self._seconds or not watching.done():
                for number in range(self._offered, round(elapsed * RATE)):
                    group.create_task(self._submit(number))
                    self._offered = number + 1
                await asyncio.sleep(0.01)
            figures = self._figures(before, self._cpu())
            self._over = True
        await self._rest()
        return figures

    async def _submit(self, number: int) -> None:
        async with self._line:
            if not self._over:
                await self._own.submit("tasks", "echo", f"{self._name}:{number}", {"n": number})
                self._accepted += 1

    async def _watch(self, began: float, before: int) -> None:
        for look in range(1, 1 + LOOKS):
            await asyncio.sleep(began + self._seconds * look / LOOKS - time.perf_counter())
            settled, _ = await self._own.database.fetchrow(SETTLED) or (0, 0)
            self._looks.append((time.perf_counter() - began, settled - before, self._offered - (settled - before)))

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(self._own.pids[name]) for name in PROCESSES} | {"client": time.process_time()}

    def _figures(self, before: dict[str, float], after: dict[str, float]) -> Figures:
        elapsed, settled, backlog = self._looks[-1]
        later = self._looks[LOOKS // 2 :]
        slope = statistics.linear_regression([at for at, _, _ in later], [left for _, _, left in later]).slope
        spent = {name: after[name] - before[name] for name in before}
        return {
            "offered_per_second": self._offered / elapsed,
            "accepted_per_second": self._accepted / elapsed,
            "settled_per_second": settled / elapsed,
            "backlog_growth": max(slope, 0.0),
            "backlog_most": max(left for _, _, left in later),
            "backlog": backlog,
            **{f"{name}_cpu": seconds * 1000 / max(settled, 1) for name, seconds in spent.items()},
            "cpu": sum(spent.values()) * 1000 / max(settled, 1),
            "cores": sum(spent.values()) / elapsed,
        }

    async def _rest(self) -> None:
        settled, submitted = 0, 1
        while settled < submitted:
            await asyncio.sleep(0.05)
            settled, submitted = await self._own.database.fetchrow(SETTLED) or (0, 0)
