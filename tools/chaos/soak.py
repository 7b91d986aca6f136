"""Operations of all kinds from many connections on a few workflows and queues, at several processes on one database.

Workers take activations and decide at random, clients submit, signal, cancel and read, time passes in leaps. A refusal
that the contract foresees for the operation is an answer; any other, and every 5xx, is a fault. In the end everything
is cancelled and must end. The database's own count of deadlocks and what the coordinators retried are told.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from races.arena import Arena, RaceLab

from chaos.processes import arena, retried
from chaos.report import Report
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.worker import Worker

ABOUT = "mixed operations of all kinds on few workflows at several processes: deadlocks, retries, unexpected codes"

#: What may be refused, by the operation's path: contention is the point, so the loser's code is an answer.
FORESEEN: dict[str, set[str]] = {
    "/v1/renewals": {"ownership_lost", "session_expired"},
    "/v1/settlements": {"ownership_lost"},
    "/v1/quiescence-confirmations": {"ownership_lost", "conflict"},
    "/v1/acquisitions": {"session_expired", "busy"},
    "/v1/worker-sessions/extend": {"session_expired"},
    "/v1/workflows/activations/context": {"ownership_lost"},
    "/v1/workflows/local-results": {"ownership_lost", "conflict"},
    "/v1/workflows/forks": {"ownership_lost", "conflict", "invalid_input"},
    "/v1/workflows/events": {"conflict", "obsolete_operation", "busy"},
}
WORKFLOWS, KEYS = 4, 6
_DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
LEAP_MS = 61_000
END_S = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--coordinators", type=int, default=3, help="processes on one database")
    parser.add_argument("--workers", type=int, default=8, help="scripted workers, and half as many clients")


def run(options: argparse.Namespace, folder: Path) -> Report:
    with arena(folder, options.coordinators) as processes:
        return asyncio.run(_campaign(options, processes))


async def _campaign(options: argparse.Namespace, processes: Arena) -> Report:
    async with processes.lab("soak", seed=options.seed) as lab:
        soak = Soak(lab)
        await soak.run(options.seconds, options.workers)
        await soak.end()
        deadlocks = await lab.store.fetchval(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
    rows = [
        {"operation": path, "done": sum(codes.values()), "answers": ", ".join(f"{c} {n}" for c, n in codes.items())}
        for path, codes in sorted(soak.answers.items())
    ]
    done = sum(row["done"] for row in rows)
    totals = {
        "operations": done,
        "decisions": soak.decided,
        "deadlocks in the database": int(deadlocks),
        "deadlocks and serialization errors met and retried": retried(processes),
        "unexpected codes": soak.unexpected,
        "5xx": soak.broken,
        "lost exchanges": processes.lost,
    }
    return Report(seed=options.seed, cases=done, totals=totals, rows=rows, faults=soak.faults)


class Recorded:
    """A ring that counts every answer and forgets the exchanges."""

    def __init__(self, soak: Soak, ring: Any) -> None:
        self._soak, self._ring = soak, ring

    async def get(self, path: str, query: Any = "") -> Any:
        return self._soak.count(await self._ring.get(path, query))

    async def post(self, path: str, body: Any) -> Any:
        return self._soak.count(await self._ring.post(path, body))


class Gone(Exception):
    """What an actor worked on is not its own any more, as the contract foresees; it goes on with something else."""


class Soak:
    """The actors and what they met."""

    def __init__(self, lab: RaceLab) -> None:
        self.lab = lab
        self.random: random.Random = lab.random
        self.answers: dict[str, Counter[str]] = {}
        self.faults: list[str] = []
        self.unexpected = self.broken = self.decided = 0
        self.workflows: list[str] = []
        self.tasks: list[str] = []
        self.over = False
        ring: Any = Recorded(self, lab.peer)
        lab.peer = ring
        self.actions: list[Callable[[], Awaitable[Any]]] = [
            *[self.send_event] * 6,
            *[self.read] * 4,
            *[self.submit] * 3,
            self.submit_task,
            self.cancel_task,
            self.cancel_workflow,
        ]

    def count(self, exchange: Any) -> Any:
        status, path = exchange.reply.status, exchange.path
        code = "200" if status == 200 else exchange.value["code"]
        self.answers.setdefault(path, Counter())[code] += 1
        if status >= 500:
            self.broken += 1
            self.faults.append(f"{exchange.method} {path}: {status} {exchange.value}")
        elif status != 200:
            if code in FORESEEN.get(path, set()):
                for peer in self.lab.each:
                    peer.transcript.exchanges.clear()
                raise Gone(code)
            self.unexpected += 1
            self.faults.append(f"{exchange.method} {path}: {status} {exchange.value}")
        for peer in self.lab.each:
            peer.transcript.exchanges.clear()
        return exchange

    async def run(self, seconds: float, workers: int) -> None:
        actors = [self.work(self.lab.queue if n % 2 else self.lab.child_queue) for n in range(workers)]
        actors += [self.ask() for _ in range(max(workers // 2, 1))]
        tasks = [asyncio.create_task(actor) for actor in (*actors, self.leap())]
        await asyncio.sleep(seconds)
        self.over = True
        for task, result in zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
            if isinstance(result, BaseException):
                self.faults.append(f"{task.get_coro().__name__} ended: {type(result).__name__} {result}")

    async def ask(self) -> None:
        """A client."""
        while not self.over:
            await self.attempt(self.submit if len(self.workflows) < WORKFLOWS else self.random.choice(self.actions))

    async def attempt(self, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            await action()
        except Gone:
            return

    async def submit(self) -> None:
        """A new workflow in place of one that may go on by itself, and sometimes the same command again."""
        command = self.lab.client.submission(retry_policy={"max_attempts": 3, "retry_delay_ms": 0})
        workflow_id = (await self.lab.client.post("/v1/workflows", command)).value["workflow_id"]
        if self.random.random() < 0.3:
            assert (await self.lab.client.post("/v1/workflows", command)).value["workflow_id"] == workflow_id
        if len(self.workflows) >= WORKFLOWS:
            self.workflows.pop(0)
        self.workflows.append(workflow_id)

    async def submit_task(self) -> None:
        self.tasks = [*self.tasks[-9:], (await self.lab.client.task(queue=self.lab.child_queue))["task_id"]]

    async def cancel_task(self) -> None:
        if self.tasks:
            await self.lab.client.cancel_task(self.random.choice(self.tasks))

    async def cancel_workflow(self) -> None:
        await self.lab.client.cancel_workflow(self.random.choice(self.workflows))

    async def send_event(self) -> None:
        """A few keys and identities, so that events meet their repetitions and their rivals."""
        event = self.lab.client.event(id=f"e{self.random.randrange(3)}")
        key = f"k{self.random.randrange(KEYS)}"
        await self.lab.client.send_event(self.random.choice(self.workflows), key, event)

    async def read(self) -> None:
        client, workflow_id = self.lab.client, self.random.choice(self.workflows)
        await client.workflow_status(workflow_id)
        await client.workflow_result(workflow_id)
        items = (await client.list_tasks(limit="20")).value["items"]
        if items:
            task_id = self.random.choice(items)["task_id"]
            await client.inspect(task_id)
            await client.result(task_id)
            await client.history(task_id)

    async def leap(self) -> None:
        """Leases run out, timers and timeouts fire."""
        while not self.over:
            await asyncio.sleep(1.5)
            await self.lab.advance(LEAP_MS)

    async def work(self, queue: str) -> None:
        """A worker with sessions one after the other; each ends with the scope's leaps."""
        while not self.over:
            await self.attempt(lambda: self.session(queue))

    async def session(self, queue: str) -> None:
        worker = await Worker.open(self.lab, queue=queue, concurrency=2)
        consumer = 0
        while not self.over:
            reply = await worker.poll(consumer, wait_ms=200)
            if reply["disposition"] != "assigned":
                continue
            claim = Claim(self.lab, reply["assignment"])
            await self.attempt(lambda held=claim: self.handle(held))
            if self.random.random() < 0.2:
                await self.lab.client.post("/v1/worker-sessions/extend", {"worker_session_id": worker.session["id"]})

    async def handle(self, claim: Claim) -> None:
        """One attempt, with everything that a worker may do in it."""
        await claim.renew("dispatch")
        if "ldgactivationid" not in claim.event:
            await self.settle(claim)
            return
        held = Activation(self.lab, claim.assignment, claim.renewed, (await claim.context()).value)
        for _ in range(self.random.randrange(3)):
            await self.local_or_fork(held)
        if self.random.random() < 0.3:
            await held.renew()
        await self.decide(held)

    async def local_or_fork(self, held: Activation) -> None:
        key = f"k{self.random.randrange(2)}"
        if self.random.random() < 0.7:
            await held.local(key, self.random.randrange(5))
        else:
            branches = [held.branch(f"{held.task_id[-6:]}-{key}-{n}", queue=self.lab.child_queue) for n in "ab"]
            await held.fork(f"{held.task_id[-6:]}-{key}", branches)

    async def settle(self, claim: Claim) -> None:
        """A task: done, failed, lost, or done with its process still alive."""
        chance = self.random.random()
        if chance < 0.6:
            await claim.settle(claim.success("done"))
        elif chance < 0.8:
            await claim.settle(claim.breakdown())
        elif chance < 0.9:
            await claim.settle(claim.success("done", quiescence="unconfirmed"))
            await claim.confirm()

    async def decide(self, held: Activation) -> None:
        revision = held.frozen["revision"]
        keys = [f"c{revision}{n}" for n in "ab"]
        commands = [held.command(keys[0]), held.command(keys[1], kind="workflow")]
        wait = f"k{self.random.randrange(KEYS)}"
        end = held.decision("complete", output=1)
        decisions: list[Any] = [
            *[held.checkpoint("suspend", {"commands": commands}, until=keys)] * 2,
            *[held.checkpoint("continue", {"commands": commands[:1]})] * 2,
            held.checkpoint("wait", {}, wait={"kind": "event", "key": wait, "timeout_ms": 1000}),
            held.checkpoint("wait", {}, wait={"kind": "timer", "key": f"t{revision}", "delay_ms": 500}),
            held.decision("fail", error={"kind": "no", "message": ""}),
            *[end] * (6 if revision > 2 or "ldgparentworkflowid" in held.event else 1),
        ]
        chance = self.random.random()
        if chance < 0.1:
            return  # its lease runs out
        if chance < 0.2:
            await held.settle(held.breakdown())
            return
        await held.settle(held.success(self.random.choice(decisions)))
        self.decided += 1

    async def end(self) -> None:
        """Cancel what is left; every workflow and task ends, and nothing stays owed."""
        text = "select id from workflow where terminal_at is null and parent_id is null"
        for row in await self.lab.store.fetch(text):
            await self.lab.client.cancel_workflow(row["id"])
        for row in await self.lab.store.fetch("select id from task where terminal_at is null and workflow_id is null"):
            await self.lab.client.cancel_task(row["id"])
        left = """
            select (select count(*) from workflow where terminal_at is null) as workflows,
              (select count(*) from task where terminal_at is null) as tasks,
              (select count(*) from obligation) as obligations, (select count(*) from agenda) as entries
        """
        until = time.monotonic() + END_S
        while any(found := dict(await self.lab.store.fetchrow(left) or {}).values()):
            if time.monotonic() > until:
                self.faults.append(f"not ended after {END_S:g} s: {list(found)}")
                return
            await self.lab.advance(LEAP_MS)
            await asyncio.sleep(0.3)
