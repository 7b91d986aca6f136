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
    "reads_before": Metric(unit="reads, while nothing is due"),
    "reads_meanwhile": Metric(unit="reads, from the first due instant to the last timer"),
    "status_p50_ms_before": Metric(unit="ms", better="less"),
    "status_p99_ms_before": Metric(unit="ms", better="less"),
    "status_p50_ms_meanwhile": Metric(unit="ms", better="less"),
    "status_p99_ms_meanwhile": Metric(unit="ms", better="less"),
}
AHEAD_MS = 3_000
#: How long after the last due instant timers may fire.
PATIENCE_MS = 60_000
#: Reads between looks whether timers are left, and the pause after each read: the same pace before and meanwhile.
READS = 20
PAUSE_S = 0.002
FAR_MS = 3_600_000
#: One statement, so that the instants are set long before the first of them; they spread over a second.
DUE = """
create temporary table due as with moved as (
  update agenda set due = $2::bigint + hashtext(ref) % 500 where kind = 'wait' and ref in (
    select c.id from workflow c join workflow w on w.submitted_at = c.submitted_at and w.id <> c.id where w.id = $1)
  returning ref as workflow_id, due),
deadlines as (update wait w set deadline = m.due from moved m where m.workflow_id = w.workflow_id)
select * from moved
"""
LEFT = "select exists (select from agenda where due <= $1 and kind = 'wait')"
LATE = """
select count(*) as fired, percentile_cont(array[0.5, 0.99]) within group (order by t.submitted_at - d.due) as late
from task t join due d on d.workflow_id = t.workflow_id where t.submitted_at >= d.due
"""


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder) as own:
        for number in range(options.rounds):
            scripted = Scripted(own, f"timers {number}")
            workflow_id = await waiting_workflow(scripted, waiting("timer", FAR_MS))
            await copy(own, OF_WORKFLOW, workflow_id, options.timers)
            await own.database.execute(DUE, workflow_id, round(time.time() * 1000) + AHEAD_MS)
            first = await own.database.fetchval("select min(due) from due")
            last = await own.database.fetchval("select max(due) from due")
            before, meanwhile = list[float](), list[float]()
            while time.time() * 1000 < first:
                before.append(await _read(own))
            left = True
            while left and time.time() * 1000 < last + PATIENCE_MS:
                meanwhile += [await _read(own) for _ in range(READS)]
                left = await own.database.fetchval(LEFT, last)
            told = await own.database.fetchrow(LATE)
            assert told is not None
            await own.database.execute("drop table due")
            yield {
                "fired": told["fired"],
                "late_p50_ms": told["late"][0] if told["late"] else 0.0,
                "late_p99_ms": told["late"][1] if told["late"] else 0.0,
                "reads_before": len(before),
                "reads_meanwhile": len(meanwhile),
                **{f"status_{name}_before": value for name, value in quantiles(before).items()},
                **{f"status_{name}_meanwhile": value for name, value in quantiles(meanwhile).items()},
            }


async def _read(own: Own) -> float:
    """Seconds that a read of something unknown takes; a pause comes after it."""
    began = time.perf_counter()
    url = own.system.url + "/v1/workflows/status"
    async with own.http.get(url, params=own.scope | {"workflow_id": "unknown"}) as reply:
        await reply.read()
    took = time.perf_counter() - began
    await asyncio.sleep(PAUSE_S)
    return took
