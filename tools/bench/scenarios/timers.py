"""Timers that are due in the same second: are all fired, how late, and what does other traffic notice?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.drivers.driving import quantiles
from bench.filling import OF_WORKFLOW, copy, waiting_workflow
from bench.own import Own, own_system
from bench.scenarios import Figures, Metric, Options
from bench.scripted import Scripted, waiting

ABOUT = "--timers due in the same second: fired, lateness, p99 of other reads meanwhile"
PEERS = False
METRICS = {
    "fired": Metric(unit="timers"),
    "late_p50_ms": Metric(unit="ms after it was due", better="less"),
    "late_p99_ms": Metric(unit="ms after it was due", better="less"),
    "status_p99_before": Metric(unit="ms", better="less"),
    "status_p99_meanwhile": Metric(unit="ms", better="less"),
}
AHEAD_MS = 3_000
FAR_MS = 3_600_000
#: One statement, so that the instants are set long before the first of them; they spread over a second.
DUE = """
create temporary table due as with moved as (
  update agenda set due = $2::bigint + hashtext(ref) % 500 where ref like $1 returning ref as workflow_id, due),
deadlines as (update wait w set deadline = m.due from moved m where m.workflow_id = w.workflow_id)
select * from moved
"""
LATE = """
select count(*) as fired, percentile_cont(array[0.5, 0.99]) within group (order by t.submitted_at - d.due) as late
from task t join due d on d.workflow_id = t.workflow_id where t.submitted_at >= d.due
"""


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=False) as own:
        for number in range(options.rounds):
            scripted = Scripted(own, f"timers {number}")
            workflow_id = await waiting_workflow(scripted, waiting("timer", FAR_MS))
            reads = [await _read(own) for _ in range(200)]
            await copy(own, OF_WORKFLOW, workflow_id, options.timers)
            await own.database.execute(DUE, f"{workflow_id}-%", round(time.time() * 1000) + AHEAD_MS)
            during, fired = list[float](), 0
            last = await own.database.fetchval("select max(due) from due")
            while fired < options.timers and time.time() * 1000 < last + 60_000:
                during.append(await _read(own))
                if len(during) % 100 == 0:
                    fired = await own.database.fetchval(LATE)
                await asyncio.sleep(0.002)
            told = await own.database.fetchrow(LATE)
            assert told is not None
            await own.database.execute("drop table due")
            yield {
                "fired": told["fired"],
                "late_p50_ms": told["late"][0] if told["late"] else 0.0,
                "late_p99_ms": told["late"][1] if told["late"] else 0.0,
                "status_p99_before": quantiles(reads)["p99_ms"],
                "status_p99_meanwhile": quantiles(during)["p99_ms"],
            }


async def _read(own: Own) -> float:
    """Seconds that a read of something unknown takes."""
    began = time.perf_counter()
    url = own.system.url + "/v1/workflows/status"
    async with own.http.get(url, params=own.scope | {"workflow_id": "unknown"}) as reply:
        await reply.read()
    return time.perf_counter() - began
