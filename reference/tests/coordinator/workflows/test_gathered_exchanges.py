"""Exchanges that come together read together, and are answered as they would be one after the other."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.coordinator.assembly import assemble
from protocol3.coordinator.parts import Parts
from protocol3.store import gathered
from protocol3.store.transition import Transitions

AHEAD_MS = 3_600_000
MANY = 32


class Ignored:
    def succeeded(self, now): ...

    def unavailable(self): ...


class Virtual(Parts):
    """Scopes have clocks of their own."""

    def transitions(self, pool, on_commit):
        return Transitions(pool, on_commit=on_commit, virtual=True)


@pytest.fixture(params=["real", "virtual"])
async def crowd(request, still, pool, programs):
    """A workflow scope with test time or without, an hour ahead of the clock then."""
    if request.param == "virtual":
        still.services = assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), parts=Virtual())
        still = type(still)(still.services, still.scope["namespace"])
        await still.submit("the scope")
        await pool.execute(
            "update scope set clock_offset_ms = $1 where namespace = $2", AHEAD_MS, still.scope["namespace"]
        )
    yield still, AHEAD_MS if request.param == "virtual" else 0
    await still.services.dispatchers.close()


@pytest.fixture
def sizes(monkeypatch):
    """How many reads each gathered statement answered."""
    found, read = [], gathered._read

    async def counted(connection, kind, all_values):
        found.append(len(all_values))
        return await read(connection, kind, all_values)

    monkeypatch.setattr(gathered, "_read", counted)
    return found


async def told(call):
    try:
        return await call
    except Refusal as refusal:
        return refusal.code


async def test_many_at_a_time_are_answered_like_one_at_a_time(crowd, sizes):
    """What is there and what is not, side by side; no answer is another's."""
    flow, ahead = crowd
    keys = [f"k{n}" for n in range(MANY)]
    roots = await asyncio.gather(*(flow.submit(key, queue="many") for key in keys))
    ids = [root["workflow_id"] for root in roots]
    assert len(set(ids)) == MANY
    runs = [await flow.start("many") for _ in keys]

    def reads():
        for root, run in zip(ids, runs, strict=True):
            yield flow.status(root)
            yield flow.status(f"{root}x")
            yield flow.result(root)
            yield flow.task(run.task_id)
            yield flow.task(f"{run.task_id}x")
            yield run.context()
            yield run.context(attempt_id="another")
        for key in keys:
            yield flow.submit(key, queue="many")
            yield flow.submit(key, queue="other")

    sizes.clear()
    alone = [await told(read) for read in reads()]
    assert sizes == []
    assert await asyncio.gather(*map(told, reads())) == alone
    assert max(sizes) > 1
    assert {"not_found", "conflict"} <= {answer for answer in alone if isinstance(answer, str)}

    sizes.clear()
    clock = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
    before = ahead + await flow.services.pool.fetchval(clock)
    settled = await asyncio.gather(*(run.decide("complete", output=run.workflow_id) for run in runs))
    after = ahead + await flow.services.pool.fetchval(clock)
    assert max(sizes) > 1
    assert [reply["receipt"]["task_id"] for reply in settled] == [run.task_id for run in runs]
    assert all(before <= reply["receipt"]["accepted_at"] <= after for reply in settled)
    results = await asyncio.gather(*(flow.result(id) for id in ids))
    assert [result["outcome"]["output"] for result in results] == ids
