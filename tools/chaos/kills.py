"""Random kill -9 of coordinators, workers and PostgreSQL while workflows run, and an account of all of them.

Several coordinators share one database and several workers one queue. A client submits the mixed workflow under a new
key again and again and repeats a command, byte for byte, until it is acknowledged. Meanwhile a seeded choice kills one
process after the other and starts it again; after a worker's death the scope's clock is moved past its leases. In the
end every acknowledged key must name one workflow, every workflow must have ended with the right result, with exactly
its two branches and three local records' worth of work, and every task's history must be whole.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chaos.report import Report
from protocol3.store.embedded import EmbeddedPostgres
from system import System, SystemFailure, migrate

ABOUT = "kill -9 of coordinators, workers and PostgreSQL at random"

EXPECTED = {"local": {"count": 3, "sum": 6}, "double": 12, "triple": 18}
TERMINAL = {"succeeded", "failed", "cancelled"}
#: Ends of a history: each task has exactly one, and it comes last (DLV-130, TASK-209).
LAST = {"succeeded", "failed", "cancelled"}
#: Past the longest lease of an attempt that nobody renews any more.
PAST_LEASES_MS = 61_000
SETTLE_SECONDS = 120


class Campaign:
    """One run: the processes, what was acknowledged, what was done to them."""

    def __init__(self, system: System, postgres: EmbeddedPostgres, seed: int, coordinators: int, workers: int) -> None:
        self.system, self.postgres = system, postgres
        self.random = random.Random(seed)  # noqa: S311 - reproducible choices, not secrets
        self.coordinators = [f"coordinator-{n}" for n in range(coordinators)]
        self.workers = [f"worker-{n}" for n in range(workers)]
        self.acknowledged: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.over = threading.Event()

    def start(self) -> None:
        for name in self.coordinators:
            self.system.start_coordinator("--test-controls", name=name)
        for name in self.workers:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        at = self.coordinators[self.workers.index(name) % len(self.coordinators)]
        environment = {"PROTOCOL3_EFFECT_LEDGER": str(self.system.folder / "local-calls")}
        self.system.start_worker(name, at=at, environment=environment)

    def submit_until_over(self) -> None:
        """A client that never gives a command up, and never changes one."""
        number = 0
        while not self.over.is_set():
            key = f"chaos:{number}"
            workflow_id = self.persist("/v1/workflows", self.command(key))["workflow_id"]
            if self.acknowledged.setdefault(key, workflow_id) != workflow_id:
                self.counts["keys with two workflows"] += 1
            number += 1

    def command(self, key: str) -> Any:
        return {
            "idempotency_key": key,
            "input": {
                "tenant_id": self.system.tenant,
                "namespace": self.system.namespace,
                "queue": self.system.queue,
                "program": {"id": "mixed-workflow", "version": "1.0.1"},
                "correlation_key": key,
                "data": {"values": [1, 2, 3], "queue": self.system.queue},
                "retry_policy": {"max_attempts": 1000, "retry_delay_ms": 0},
            },
        }

    def persist(self, path: str, body: Any) -> Any:
        """Repeat until there is a definite answer; 503 and lost connections are none (HTTP-068)."""
        while True:
            try:
                return self.system.post(path, body, at=self.random.choice(self.coordinators))
            except (OSError, SystemFailure) as failure:
                if isinstance(failure, SystemFailure) and "503" not in str(failure):
                    raise
                self.counts["uncertain exchanges repeated"] += 1
                time.sleep(0.05)

    def disturb(self, seconds: float) -> None:
        """Kill and restart one thing after the other."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.3, 1.5))
            kind = self.random.choices(["coordinator", "worker", "postgres"], [5, 3, 1])[0]
            if kind == "coordinator":
                name = self.random.choice(self.coordinators)
                self.system.kill(name)
                self.system.start_coordinator("--test-controls", name=name)
            elif kind == "worker":
                name = self.random.choice(self.workers)
                self.system.kill(name)
                self.start_worker(name)
                self.move_past_leases()
            else:
                os.kill(self.postgres.pid, signal.SIGKILL)
                self.postgres.stop()
                self.postgres.start()
            self.counts[f"{kind} kills"] += 1

    def move_past_leases(self) -> None:
        scope = {"tenant_id": self.system.tenant, "namespace": self.system.namespace}
        self.persist("/testing/v1/clock", {"scope": scope, "advance_ms": PAST_LEASES_MS, "leases": "expire"})

    def settle(self) -> None:
        """Wait until every acknowledged workflow ended."""
        deadline = time.monotonic() + SETTLE_SECONDS
        open_ones = list(self.acknowledged.values())
        moved = time.monotonic()
        while open_ones:
            open_ones = [w for w in open_ones if self.read("/v1/workflows/status", w)["state"] not in TERMINAL]
            if time.monotonic() > deadline:
                raise SystemFailure(f"{len(open_ones)} workflows have not ended, the first is {open_ones[0]}")
            if open_ones and time.monotonic() - moved > 5:
                self.move_past_leases()  # what a killed worker's last attempts held
                moved = time.monotonic()
            time.sleep(0.2)

    def read(self, path: str, workflow_id: str) -> Any:
        return self.system.get(path, at=self.coordinators[0], workflow_id=workflow_id)

    def account(self) -> list[str]:
        """What is wrong, in words; nothing when all is well."""
        faults = [text for text in ("keys with two workflows",) if self.counts[text]]
        for key, workflow_id in self.acknowledged.items():
            if self.persist("/v1/workflows", self.command(key))["workflow_id"] != workflow_id:
                faults.append(f"{key}: a replay found another workflow")
            faults += [f"{key} ({workflow_id}): {fault}" for fault in self.faults_of(key, workflow_id)]
        return faults

    def faults_of(self, key: str, workflow_id: str) -> list[str]:
        faults = []
        outcome = self.read("/v1/workflows/result", workflow_id)["outcome"]
        tasks = self.system.get("/v1/tasks", at=self.coordinators[0], correlation_key=key, limit="100")["items"]
        exhausted = any(task["attempt_count"] == 3 and task["state"] == "failed" for task in tasks)
        if outcome == {"kind": "succeeded", "output": EXPECTED}:
            self.counts["succeeded"] += 1
        elif exhausted and outcome["kind"] == "failed" and outcome["error"]["kind"] == "branch_failed":
            self.counts["failed because a branch lost three attempts"] += 1
        else:
            faults.append(f"ended as {outcome}")
        workflows = {task["workflow_id"] for task in tasks}
        if len(workflows) != 3:
            faults.append(f"{len(workflows)} workflows instead of the root and its two branches")
        if len(tasks) != 5 and not exhausted:
            faults.append(f"{len(tasks)} activations instead of five")
        self.counts["attempts"] += sum(task["attempt_count"] for task in tasks)
        for task in tasks:
            history = self.system.get("/v1/tasks/history", at=self.coordinators[0], task_id=task["task_id"])
            reasons = [record["event"]["reason"] for record in history]
            if [record["sequence"] for record in history] != list(range(1, len(history) + 1)):
                faults.append(f"task {task['task_id']}: its history has gaps")
            if sum(reason in LAST for reason in reasons) != 1 or reasons[-1] not in LAST:
                faults.append(f"task {task['task_id']}: ends {reasons}")
            if reasons.count("claimed") != task["attempt_count"]:
                faults.append(f"task {task['task_id']}: {reasons.count('claimed')} claims")
        return faults


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=30, help="how long things are killed")
    parser.add_argument("--coordinators", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)


def run(options: argparse.Namespace, folder: Path) -> Report:
    postgres = EmbeddedPostgres(folder / "database")
    postgres.start()
    try:
        migrate(postgres.dsn)
        with System(folder, tenant="chaos", database_url=postgres.dsn) as system:
            system.publish("mixed-workflow")
            campaign = Campaign(system, postgres, options.seed, options.coordinators, options.workers)
            campaign.start()
            client = threading.Thread(target=campaign.submit_until_over, daemon=True)
            client.start()
            campaign.disturb(options.seconds)
            campaign.over.set()
            client.join()
            campaign.settle()
            faults = campaign.account()
            workflows = len(campaign.acknowledged)
            totals = {"acknowledged": workflows, **campaign.counts}
            return Report(seed=options.seed, cases=workflows, totals=totals, faults=faults)
    finally:
        postgres.stop()
