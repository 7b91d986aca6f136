"""`./dev bench` measures what it says: its exchanges and statements are counted here, no time is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import pytest_asyncio

# Tools are no package of the project; what we test must be found before it can be imported (E402).
sys.path.append(str(Path(__file__).parents[3] / "tools"))

from bench import filling, running
from bench.drivers.looks import Looks
from bench.own import Own, own_system
from bench.plot import write_svg
from bench.report import Results, Row, ratios, table
from bench.scenarios import Metric, Options, in_turn, latency, names, timers, wakes
from bench.scenarios._floor import floor_of
from bench.scripted import UNPOLLED, Scripted, complete, waiting
from system import temporary_folder

ROUNDS = 3
of_a_system = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def own() -> AsyncIterator[Own]:
    """Our system without a worker, on a database that counts statements."""
    with temporary_folder("bench-test") as folder:
        async with own_system(folder, counting=True) as own:
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
            5,  # the context writes nothing; the decision is applied with its settlement
        ),
    ],
)
async def test_exchanges_and_transitions(own: Own, space: str, exchanges: list[str], transitions: int) -> None:
    """A trivial workflow is six exchanges and five transitions, a task four of each."""
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
    renamed = {name: fifth(status[name]) for name in ("task_id", "run_id", "latest_attempt_id")}
    assert await own.get("/v1/tasks/status", task_id=fifth(task_id)) == status | renamed
    workflow = await own.get("/v1/workflows/status", workflow_id=fifth(workflow_id))
    assert (workflow["state"], workflow["revision"]) == ("waiting", 1)
    assert await own.database.fetchval("select count(*) from task where queue = 'filled'") == 2 + 5 + 5
    copies = await own.database.fetch("select id from task where submitted_at = $1 order by id", status["submitted_at"])
    instants = [int(row["id"].removeprefix("task_")[:12], 16) for row in copies]
    assert [later - instants[0] for later in instants] == [0, 1, 2, 3, 4, 4]


def fifth(id: str) -> str:
    """What the last of five copies has in place of an identifier."""
    prefix, _, digits = id.partition("_")
    return f"{prefix}_{digits[:12]}{md5(f'{id}5'.encode(), usedforsecurity=False).hexdigest()}"


COPIES = 3


async def rows(own: Own) -> Counter[str]:
    """Of every table, those of scopes, workers and loops left out."""
    await ended(own)
    tables = await own.database.fetch("select tablename from pg_tables where schemaname = 'protocol3'")
    counted = {table: await own.database.fetchval(f"select count(*) from {table}") for (table,) in tables}
    others = await own.database.fetchval("select count(*) from agenda where kind <> 'wait'")
    return Counter({**counted, "scope": 0, "session": 0, "cursor": 0, "agenda": counted["agenda"] - others})


@of_a_system
@pytest.mark.parametrize("kind", ["task", "event", "timer", "join"])
async def test_a_copy_has_rows_in_every_table_of_its_original(
    own: Own, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "AT_ONCE", 2)  # more than one statement for a table
    scripted, before = Scripted(own, f"rows of {kind}"), await rows(own)
    if kind == "task":
        tables, id = filling.OF_TASK, await filling.finished_task(scripted)
    else:
        tables, id = filling.OF_WORKFLOW, await filling.waiting_workflow(scripted, waiting(kind, 3_600_000))
    made = await rows(own) - before
    await filling.copy(own, tables, id, COPIES)
    assert await rows(own) - before == {table: count * (1 + COPIES) for table, count in made.items()}


@of_a_system
@pytest.mark.parametrize("kind", ["event", "join"])
async def test_copied_workflows_wake(own: Own, kind: str) -> None:
    """By an event that is sent to each, or when the child of each ends; then they go on to their end."""
    scripted = Scripted(own, f"woken by {kind}")
    original = await filling.waiting_workflow(scripted, waiting(kind))
    await filling.copy(own, filling.OF_WORKFLOW, original, COPIES)
    found = await own.database.fetch(
        "select c.id from workflow c join workflow w using (submitted_at) where w.id = $1 and c.state = 'waiting'",
        original,
    )
    ids = {row["id"] for row in found}
    if kind == "join":
        queued = await own.database.fetchval(
            "select count(*) from task where queue = $1 and state = 'queued'", UNPOLLED
        )
        await perform(Scripted(own, UNPOLLED), queued)
    else:
        await asyncio.gather(*(send_event(own, id) for id in ids))
    contexts: list[Any] = []
    await perform(scripted, len(ids), contexts)
    assert [list(context["inputs"]) for context in contexts] == [["child"] if kind == "join" else []] * (1 + COPIES)
    assert {context["revision"] for context in contexts} == {1}
    await ended(own)
    left = await own.database.fetch("select id, state from workflow where id = any($1)", ids)
    assert {row["id"]: row["state"] for row in left} == dict.fromkeys(ids, "succeeded")
    assert original in ids


async def perform(scripted: Scripted, count: int, contexts: list[Any] | None = None) -> None:
    """So many tasks of a queue, which are or will soon be there; the contexts of those that are activations."""

    def decide(context: Any) -> Any:
        assert contexts is not None
        contexts.append(context)
        return complete(context)

    session = await scripted.open(1)
    for sequence in range(1, 1 + count):
        await scripted.perform(await scripted.poll(session, 0, sequence), decide)


async def send_event(own: Own, workflow_id: str) -> None:
    event = {"specversion": "1.0", "id": workflow_id, "source": "/bench", "type": "bench.event"}
    event |= {"datacontenttype": "application/json", "data": None}
    command = {"scope": own.scope, "workflow_id": workflow_id, "key": "wait", "event": event}
    await own.post("/v1/workflows/events", command)


@of_a_system
async def test_a_task_for_many_consumers_wakes_one(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the floor is asked once for each of them."""
    monkeypatch.setattr(wakes, "TASKS", 3)
    scripted = Scripted(own, "wakes")
    async with floor_of(own) as floor:
        figures = await wakes.wakes(own, floor, scripted, 20)
    assert set(figures) == set(wakes.METRICS)
    assert figures["claims_per_task"] == 1
    assert [scripted.sent[path] for path in ("/v1/tasks", "/v1/renewals", "/v1/settlements")] == [3, 3, 3]
    assert await own.database.fetchval("select count(*) from public.floor") == 3


@of_a_system
async def test_copied_timers_fire(own: Own) -> None:
    """Each once, at the instant that the scenario moves it to."""
    workflow_id = await filling.waiting_workflow(Scripted(own, "timers"), waiting("timer", 3_600_000))
    await filling.copy(own, filling.OF_WORKFLOW, workflow_id, 3)
    await own.database.execute(timers.DUE, workflow_id, round(time.time() * 1000) + timers.AHEAD_MS)
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


@pytest.mark.parametrize("name", [name for name in names() if not running.module(name).PEERS])
async def test_every_scenario_of_our_own_plays_its_rounds(name: str) -> None:
    """Its shape alone: two rounds, each with every figure."""
    few = Options(rounds=2, seconds=0.2, rows=500, consumers=10, timers=50, slots=2)
    with temporary_folder("bench-test") as folder:
        results = await running.run([name], [], few, folder)
    (row,) = results.rows
    assert [sorted(row.metrics.keys() - figures) for figures in row.rounds] == [[], []]
    assert all(figure >= 0 for figures in row.rounds for figure in figures.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trivial-l"], "there is no scenario 'trivial-l'; did you mean trivial-1?"),
        (["--peers", "restat"], "there is no peer 'restat'; did you mean restate?"),
        (["--peers", "x"], "there are restate, dbos, absurd"),
        *[
            ([f"--{name}", bad], f"argument --{name}: ")
            for name in ("rounds", "rows", "consumers", "timers", "slots")
            for bad in ("0", "-1", "x", "1.5")
        ],
        (["--slots", "257"], "257 is not 1 to 256"),
        *[(["--seconds", bad], "argument --seconds: ") for bad in ("0", "-1", "nan", "x", "101")],
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], said: str) -> None:
    command = [sys.executable, str(Path(__file__).parents[3] / "tools/bench"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_what_was_slow_once_does_not_slow_the_submitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """While program processes start a workflow takes seconds; the next one is looked at in time."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    looks = Looks()

    async def after(count: int, took: float) -> list[float]:
        del pauses[:]
        found = iter([None] * count + [took])

        async def ended() -> float | None:
            return next(found)

        await looks.until(ended)
        return list(pauses)

    for _ in range(8):
        await after(0, 3.0)
    assert sum(await after(1, 0.01)) == 2 * Looks.FIRST_S  # of 3 s, 2.1 and 0.3 were slept
    assert await after(1, 0.01) == pytest.approx([0.007, Looks.SHORTEST_S])


class Played:
    """An engine whose calls take 1 ms, 2 ms and so on, in a shuffled order; `clock` passes by `pace` with each."""

    def __init__(self, pace: float) -> None:
        self.clock, self.pace, self.calls = 0.0, pace, 0

    async def ask(self, do: str, **given: Any) -> dict[str, float]:
        assert (do, given) == ("calm", {"count": 1})
        self.clock += self.pace
        self.calls += 1
        return {"p50_ms": (self.calls * 7) % 200 + 1.0}


@pytest.mark.parametrize(
    ("pace", "seconds", "calls"),
    [(0.03, 2.0, 200), (0.03, 9.0, 300), (1.0, 2.0, 101)],
    ids=["as many as a p99 needs", "as many as the seconds allow", "not beyond the longest time"],
)
async def test_a_p99_is_of_many_calls(monkeypatch: pytest.MonkeyPatch, pace: float, seconds: float, calls: int) -> None:
    engine: Any = Played(pace)
    monkeypatch.setattr(latency, "time", SimpleNamespace(monotonic=lambda: engine.clock))
    figures = await latency.play(engine, Options(seconds=seconds))
    assert engine.calls == calls
    assert figures["calls"] == calls
    if calls == 200:
        assert figures == {"p50_ms": 100.5, "p99_ms": 198.0, "max_ms": 200.0, "calls": 200}


def test_sides_are_measured_in_turns() -> None:
    assert [in_turn(number, {"a": 1, "b": 2}) for number in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]


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
