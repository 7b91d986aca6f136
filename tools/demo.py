"""`./dev demo`: a coordinator, a worker and a client finish the mixed fork workflow, then survive kill -9.

Everything runs on this machine in a folder of its own: an embedded PostgreSQL, the coordinator, one worker with four
program processes. The folder is removed at the end unless --keep is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from system import ROOT, System, SystemFailure, shell, temporary_folder

EXPECTED = {"local": {"count": 3, "sum": 6}, "double": 12, "triple": 18}
VALUES = [1, 2, 3]
PROGRAM = {"id": "mixed-workflow", "version": "1.0.1"}
FINISH_SECONDS = 40
#: Workflows that may finish before the crash finds them in the middle: the window is the 100 ms timer of one branch.
CRASH_TRIES = 20
TERMINAL = {"succeeded", "failed", "cancelled"}


class Story:
    """What the person sees: numbered steps, indented facts, a live tree on a terminal. Diagnostics go to stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self.out = sys.stderr if quiet else sys.stdout
        self.live = self.out.isatty()
        self.colour = self.live and "NO_COLOR" not in os.environ
        self.steps = 0
        self.began = time.monotonic()
        self._drawn = 0

    def step(self, text: str) -> None:
        self.steps += 1
        self.say(f"\n{self.paint('1', f'{self.steps}. {text}')}")

    def fact(self, text: str) -> None:
        self.say(f"   {text}")

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)
        self._drawn = 0

    def tree(self, before: list[str], lines: list[str]) -> None:
        """Redraw the tree in place on a terminal; elsewhere tell only what changed, with the time."""
        if not self.live:
            seconds = time.monotonic() - self.began
            for line in lines:
                if line not in before:
                    self.fact(f"{seconds:6.2f} s  {line}")
            return
        if self._drawn:
            self.out.write(f"\x1b[{self._drawn}A\x1b[J")
        print(*(f"     {line}" for line in lines), sep="\n", file=self.out, flush=True)
        self._drawn = len(lines)

    def paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


class Watch:
    """Follows one workflow tree through public reads; its tasks and branches share the correlation key."""

    def __init__(self, system: System, workflow_id: str, correlation_key: str) -> None:
        self.system, self.workflow_id, self.correlation_key = system, workflow_id, correlation_key
        self.seen: list[str] = []

    def tasks(self) -> list[dict[str, Any]]:
        page = self.system.get("/v1/tasks", correlation_key=self.correlation_key, limit="100")
        return sorted(page["items"], key=lambda task: (task["submitted_at"], task["task_id"]))

    def workflow(self, workflow_id: str) -> dict[str, Any]:
        status: dict[str, Any] = self.system.get("/v1/workflows/status", workflow_id=workflow_id)
        return status

    def lines(self) -> tuple[bool, list[str]]:
        """Whether the root is terminal, and the tree as text."""
        by_workflow: dict[str, list[dict[str, Any]]] = {self.workflow_id: []}
        for task in self.tasks():
            by_workflow.setdefault(task["workflow_id"], []).append(task)
        drawn: list[str] = []
        for workflow_id, tasks in by_workflow.items():
            state = self.workflow(workflow_id)
            branch = workflow_id != self.workflow_id
            drawn.append(f"{'└─ branch' if branch else 'workflow'} ...{workflow_id[-6:]}: {_told(state)}")
            for number, task in enumerate(tasks, start=1):
                indent = "   " if branch else ""
                short = task["task_id"][-6:]
                told = f"{task['state']}, attempts {task['attempt_count']}"
                drawn.append(f"{indent}   activation {number} of ...{workflow_id[-6:]} (task ...{short}): {told}")
        return self.workflow(self.workflow_id)["state"] in TERMINAL, drawn

    def waits_on_timer_only(self) -> bool:
        """In the middle with nothing running: every task is over, the tree is not."""
        tasks = self.tasks()
        return (
            len(tasks) >= len(EXPECTED)
            and not any(task["state"] in ("queued", "active") for task in tasks)
            and self.workflow(self.workflow_id)["state"] == "waiting"
        )

    def result(self) -> Any:
        return self.system.get("/v1/workflows/result", workflow_id=self.workflow_id)["outcome"]


def _told(status: dict[str, Any]) -> str:
    return f"{status['state']}, revision {status['revision']}"


def submit(system: System, key: str) -> Watch:
    body = {
        "idempotency_key": key,
        "input": {
            "tenant_id": system.tenant,
            "namespace": system.namespace,
            "queue": system.queue,
            "program": PROGRAM,
            "correlation_key": key,
            "data": {"values": VALUES, "queue": system.queue},
        },
    }
    return Watch(system, system.post("/v1/workflows", body)["workflow_id"], key)


def follow(watch: Watch, story: Story) -> Any:
    """Show the tree whenever it changes until it ends; its outcome."""
    deadline = time.monotonic() + FINISH_SECONDS
    shown: list[str] = []
    while True:
        over, lines = watch.lines()
        if lines != shown:
            story.tree(shown, lines)
            shown = lines
        if over:
            return watch.result()
        if time.monotonic() > deadline:
            raise SystemFailure(f"workflow {watch.workflow_id} did not finish within {FINISH_SECONDS} s")
        time.sleep(0.02)


def check(outcome: Any) -> None:
    if outcome != {"kind": "succeeded", "output": EXPECTED}:
        raise SystemFailure(f"expected {EXPECTED}, got {outcome}")


def crash_in_the_middle(system: System, story: Story, ledger: Path) -> tuple[Watch, int]:
    """Submit until one workflow is caught waiting on its timer alone, then kill -9 worker and coordinator.

    Returns it with the number of local calls that its run had made before.
    """
    for number in range(1, CRASH_TRIES + 1):
        before = len(ledger.read_text().splitlines())
        watch = submit(system, f"demo:crash:{number}")
        deadline = time.monotonic() + FINISH_SECONDS
        while time.monotonic() < deadline:
            if watch.waits_on_timer_only():
                system.kill("coordinator")
                system.kill("worker")
                story.fact(f"killed both while {watch.workflow_id} was waiting (try {number})")
                return watch, before
            if watch.workflow(watch.workflow_id)["state"] in TERMINAL:
                break
    raise SystemFailure(f"no workflow was caught in the middle in {CRASH_TRIES} tries")


def run(system: System, story: Story) -> dict[str, Any]:
    ledger = system.folder / "local-calls"
    ledger.touch()
    effects = {"PROTOCOL3_EFFECT_LEDGER": str(ledger)}

    story.step("Publish the program")
    descriptor = system.publish(PROGRAM["id"])
    story.fact(f"{PROGRAM['id']} {PROGRAM['version']}  {descriptor['digest'][:19]}...  {descriptor['size']} bytes")

    story.step("Start the coordinator (on its own embedded PostgreSQL) and one worker")
    system.start_coordinator()
    story.fact(f"coordinator ready at {system.url} after {time.monotonic() - story.began:.1f} s")
    system.start_worker(environment=effects)

    story.step(f"Submit the mixed workflow for {VALUES} and watch it")
    watch = submit(system, "demo:first")
    outcome = follow(watch, story)
    check(outcome)
    story.fact(f"result {json.dumps(outcome['output'])}")

    story.step("Submit again under the same key")
    again = submit(system, "demo:first")
    if again.workflow_id != watch.workflow_id:
        raise SystemFailure("the same key made a second workflow")
    story.fact(f"the same workflow answers: {again.workflow_id}")

    story.step("Run another one, and kill -9 the coordinator and the worker in the middle")
    caught, before = crash_in_the_middle(system, story, ledger)

    story.step("Start both again on the same data")
    system.start_coordinator()
    system.start_worker(environment=effects)
    after = follow(caught, story)
    check(after)
    calls = len(ledger.read_text().splitlines()) - before
    if calls != 1:
        raise SystemFailure(f"the local function of {caught.workflow_id} ran {calls} times, not once")
    story.fact(f"result {json.dumps(after['output'])}, the local function ran {calls} time in all")
    return {
        "first": {"workflow_id": watch.workflow_id, "outcome": outcome},
        "crashed": {"workflow_id": caught.workflow_id, "outcome": after, "local_calls": calls},
        "seconds": round(time.monotonic() - story.began, 1),
    }


def next_steps(system: System, story: Story, workflow_id: str) -> None:
    scope = ["--server", system.url, "--tenant", system.tenant, "--namespace", system.namespace]
    story.say("\nIt keeps running until Ctrl-C. Try in another terminal:")
    for words in (
        ["protocol3", "task", "list", *scope],
        ["protocol3", "workflow", "show", *scope, "--workflow", workflow_id],
        ["pytest", "conformance", "--target", system.url],
    ):
        story.fact(f".venv/bin/{shell(words)}")
    story.say("\nThese processes serve it:")
    for name, words in system.commands.items():
        story.fact(f"{name} (pid {system.pid(name)}, log {system.log(name)})")
        story.fact(f"   .venv/bin/{shell(words)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running and print the URLs and commands")
    parser.add_argument("--json", action="store_true", help="print one JSON object with the results at the end")
    options = parser.parse_args()
    story = Story(quiet=options.json)
    try:
        with temporary_folder("demo") as folder, System(folder) as system:
            told = run(system, story)
            story.say(f"\nDone in {told['seconds']} s.")
            if options.json:
                print(json.dumps(told))
            if options.keep:
                next_steps(system, story, told["first"]["workflow_id"])
                while True:
                    time.sleep(3600)
    except KeyboardInterrupt:
        return 130
    except SystemFailure as failure:
        print(f"\ndemo: {failure}", file=sys.stderr)
        return 1
    story.say(
        "\nWhat to try next:\n"
        "   ./dev demo --keep            leave it running and look around with protocol3 and curl\n"
        f"   {(ROOT / 'fixtures/programs/mixed-workflow/program.py').relative_to(ROOT)}   the handler, about a page\n"
        "   ./dev test                   everything that must hold"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
