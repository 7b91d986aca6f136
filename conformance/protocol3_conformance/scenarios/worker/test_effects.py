"""External effects of a step when its process or its worker dies, counted by a sink outside of both."""

from __future__ import annotations

import signal

from protocol3_conformance.roles.coordinator import COMMITS, Attempt, losing, refusing
from protocol3_conformance.scenarios.effects import EXPECTED, code
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.worker_lab import WorkerLab

DIES = "os.kill(os.getpid(), 9)"


async def second(lab: WorkerLab, first: Attempt) -> None:
    """The next attempt of the same activation, with the records that the first one committed, must complete."""
    records = [one["record"] for one in lab.coordinator.sent(COMMITS) if one["owner"] == first.owner]
    again = await lab.coordinator.again(first, local_steps=records)
    await lab.coordinator.settled(again)
    output = again.report["outcome"]["output"]
    assert (output["kind"], output["output"]) == ("complete", "paid")
    mine = [one for one in lab.coordinator.sent(COMMITS) if one["owner"] == again.owner]
    assert len(records) + len(mine) == 1, f"{len(records)} records of the first attempt, {len(mine)} of the second"


@worker_check(
    "effects/program-dies", cites=["HLP-053", "HLP-056", "HLP-070", "WRK-081", "WRK-084", "WRK-043", "WRK-059"]
)
async def test_program_dies(lab: WorkerLab) -> None:
    """A program dies before its effect, after it, or after its record: the effect happens once, twice, once."""
    worker = lab.worker()
    for place, expected in EXPECTED.items():
        with lab.case(place):
            first = await lab.activation(code(lab.effects, place, **{place: DIES}))
            assert await lab.coordinator.settled(first) == ("runtime", "execution", True)
            await second(lab, first)
            assert lab.effects.of(place) == expected
    await lab.stopped(worker)


@worker_check("effects/worker-dies", cites=["HLP-053", "HLP-056", "HLP-070", "WRK-081", "WRK-084", "WRK-023"])
async def test_worker_dies(lab: WorkerLab) -> None:
    """A worker that is killed at the same places: its successor does what was not recorded, and nothing else."""
    worker: Process = lab.worker()
    for number, (place, expected) in enumerate(EXPECTED.items(), 1):
        with lab.case(place):
            stays = f"pathlib.Path({str(lab.mark(place))!r}).write_text(str(os.getpid())); time.sleep(60)"
            first = await lab.activation(code(lab.effects, place, **{place: stays}))
            await lab.reached(worker, place)
            worker.signal(signal.SIGKILL)
            await worker.ended()
            assert first.settlements == []
            worker = lab.worker(cache=number)
            await second(lab, first)
            assert lab.effects.of(place) == expected
    await lab.stopped(worker)


@worker_check("effects/record-unanswered", cites=["WRK-083", "HLP-053", "HLP-054"])
async def test_record_unanswered(lab: WorkerLab) -> None:
    """While a record has no answer it is sent again, and the effect is not done again."""
    worker = lab.worker()
    lab.coordinator.script(COMMITS, losing, *refusing("unavailable"), losing)
    attempt = await lab.activation(code(lab.effects, "pay"))
    assert (await lab.coordinator.settled(attempt))[0] == "success"
    sent = lab.coordinator.bodies(COMMITS)
    assert (len(sent), len(set(sent))) == (4, 1)
    assert lab.effects.of("pay") == {1: 1}
    await lab.stopped(worker)
