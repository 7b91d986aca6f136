"""`./dev bench` measures what it says: its exchanges and statements are counted here, no time is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import pytest_asyncio

# Tools are no package of the project; what we test must be found before it can be imported (E402).
sys.path.append(str(Path(__file__).parents[3] / "tools"))

from bench import filling, running
from bench.own import Own, own_system
from bench.plot import write_svg
from bench.report import Results, Row, ratios, table
from bench.scenarios import Metric, names, timers
from bench.scripted import Scripted, waiting
from system import temporary_folder

ROUNDS = 3
of_a_system = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own() -> AsyncIterator[Own]:
    """Our system without a worker, on a database that counts statements."""
    with temporary_folder("bench-test") as folder:
        async with own_system(folder, worker=False, counting=True) as own:
            yield own


async def finish(scripted: Scripted, session: str, sequence: int, space: str) -> None:
    """One workflow or task from submission to settlement, with one poll."""
    await scripted.submit(space)
    await scripted.perform(await scripted.poll(session, 0, sequence))


async def written(own: Own) -> int:
    """Transitions so far, each of which is one statement."""
    return sum(calls for text, calls in (await own.statements()).items() if text.startswith("select apply"))


@of_a_system
@pytest.mark.parametrize(
    ("space", "exchanges", "transitions"),
    [
        ("tasks", ["/v1/tasks", "/v1/acquisitions", "/v1/renewals", "/v1/settlements"], 4),
        (
            "workflows",
            [
                "/v1/workflows",
                "/v1/acquisitions",
                "/v1/renewals",
                "/v1/workflows/activations/context",
                "/v1/workflows/local-results",
                "/v1/settlements",
            ],
            6,  # the context writes nothing; the decision is applied after its settlement
        ),
    ],
)
async def test_exchanges_and_transitions(own: Own, space: str, exchanges: list[str], transitions: int) -> None:
    """A trivial workflow is six exchanges and six transitions, a task four of each."""
    scripted = Scripted(own, space)
    session = await scripted.open(1)
    await finish(scripted, session, 1, space)
    await ended(own)
    scripted.sent.clear()
    before = await written(own)
    for sequence in range(2, 2 + ROUNDS):
        await finish(scripted, session, sequence, space)
    await ended(own)
    assert scripted.sent == dict.fromkeys(exchanges, ROUNDS)
    assert await written(own) - before == ROUNDS * transitions


async def ended(own: Own) -> None:
    """Until every decision was applied."""
    async with asyncio.timeout(20):
        while await own.database.fetchval("select count(*) from obligation"):
            await asyncio.sleep(0.01)


@of_a_system
async def test_filled_tables_hold_what_could_have_happened(own: Own) -> None:
    """A copy is read like the task or workflow that it was made from."""
    scripted = Scripted(own, "filled")
    task_id = await filling.finished_task(scripted)
    await filling.copy(own, filling.OF_TASK, task_id, 5)
    workflow_id = await filling.waiting_workflow(scripted, waiting("event"))
    await filling.copy(own, filling.OF_WORKFLOW, workflow_id, 5)
    status = await own.get("/v1/tasks/status", task_id=task_id)
    renamed = {name: f"{status[name]}-5" for name in ("task_id", "run_id", "latest_attempt_id")}
    assert await own.get("/v1/tasks/status", task_id=f"{task_id}-5") == status | renamed
    workflow = await own.get("/v1/workflows/status", workflow_id=f"{workflow_id}-5")
    assert (workflow["state"], workflow["revision"]) == ("waiting", 1)
    assert await own.database.fetchval("select count(*) from task where queue = 'filled' and id like '%-_'") == 5 + 5


@of_a_system
async def test_copied_timers_fire(own: Own) -> None:
    """Each once, at the instant that the scenario moves it to."""
    workflow_id = await filling.waiting_workflow(Scripted(own, "timers"), waiting("timer", 3_600_000))
    await filling.copy(own, filling.OF_WORKFLOW, workflow_id, 3)
    await own.database.execute(timers.DUE, f"{workflow_id}-%", round(time.time() * 1000) + timers.AHEAD_MS)
    fired = 0
    async with asyncio.timeout(20):
        while fired < 3:
            fired = await own.database.fetchval(timers.LATE)
            await asyncio.sleep(0.05)
    assert await own.database.fetchval("select count(*) from task where queue = 'timers'") == 4 + 3


@pytest.mark.parametrize("name", names())
def test_every_scenario_tells_what_it_measures(name: str) -> None:
    module = running.module(name)
    assert module.ABOUT
    assert isinstance(module.PEERS, bool)
    assert all(isinstance(metric, Metric) for metric in module.METRICS.values())


def results() -> Results:
    metrics = {"per_second": Metric(unit="/s", better="more")}
    ours = Row(scenario="s", engine="ours", metrics=metrics, rounds=[{"per_second": n} for n in (10.0, 30.0, 20.0)])
    peer = Row(scenario="s", engine="peer", metrics=metrics, rounds=[{"per_second": n} for n in (10.0, 10.0, 40.0)])
    return Results(left_out={"other": "no package"}, rows=[ours, peer])


def test_a_ratio_is_of_one_round() -> None:
    ours, peer = results().rows
    assert ratios(ours.values("per_second"), peer.values("per_second")) == [1.0, 3.0, 0.5]
    _, first, second, left_out = table(results()).splitlines()
    assert first.split() == ["s", "ours", "per_second", "20.0", "(10.0", "to", "30.0)", "/s"]
    assert second.split()[7:] == ["1.00", "(0.50", "to", "3.00),", "more", "is", "better"]
    assert left_out == "left out: other: no package"


def test_the_plot_has_a_bar_for_each_engine(tmp_path: Path) -> None:
    write_svg(tmp_path / "plot.svg", results())
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    bars = root.findall("{http://www.w3.org/2000/svg}rect")[1:]  # the first is the background
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths == [pytest.approx(2 * widths[1]), widths[1]]
