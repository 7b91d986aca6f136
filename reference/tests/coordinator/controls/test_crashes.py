"""The act `crash`: the process kills itself at the named place, and another one finds what was committed, no more."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

FAULTS, CANCEL = "/testing/v1/faults", "/v1/tasks/cancel"
COMMAND = [sys.executable, "-m", "protocol3.cli", "orchestrator", "serve", "--listen", "127.0.0.1:0"]


@pytest.fixture
def process(database, store, wire, namespace):
    """Starts a server as a process of its own on the module's database."""
    running = []

    def start():
        options = ["--database-url", database, "--store", str(store), "--test-controls", "--log-level", "error"]
        server = wire(namespace)
        server.process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True)
        running.append(server.process)
        server.url = json.loads(server.process.stdout.readline())["url"]
        return server

    yield start
    for each in running:
        each.kill()
        each.wait()


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_an_exchange(process, where):
    """TST-020, DLV-120, DLV-121: before the commit nothing, after it everything; the repetition tells."""
    server = process()
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, "crash", where)
    assert await server.send(CANCEL, task_id=task_id) == (0, None)
    assert server.process.wait(timeout=20) == -signal.SIGKILL
    again = process()
    state = (await again.get("/v1/tasks/status", task_id=task_id))["state"]
    assert state == ("cancelled" if where == "committed" else "queued")
    assert (await again.get(FAULTS)) == {"faults": [], "held": []}
    assert await again.post(CANCEL, task_id=task_id) == "cancelled"


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_a_step(process, where):
    """RCV-002, DRN-003: a drain that dies with its process is carried on by the next one."""
    server = process()
    workflow = await server.submit(path="/v1/workflows")
    rule = {"match": {"step": "drain.pass"}, "where": where, "act": {"kind": "crash"}}
    await server.post(FAULTS, **rule)
    await server.send("/v1/workflows/cancel", workflow_id=workflow["workflow_id"])
    assert server.process.wait(timeout=20) == -signal.SIGKILL
    again = process()
    while (await again.get("/v1/workflows/status", workflow_id=workflow["workflow_id"]))["state"] != "cancelled":
        await again.post("/testing/v1/clock", advance_ms=0)
    activation = await again.get("/v1/tasks/status", task_id=workflow["activation_id"])
    assert activation["state"] == "cancelled"
