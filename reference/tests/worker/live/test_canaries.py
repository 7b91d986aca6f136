"""No word of an application, and no word that a coordinator repeats, is in a line that the worker itself writes."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocol3.worker.diagnostics import Diagnostics

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]
CANARY = "canary"

PROGRAM = """\
import os, sys
from ledgence.worker.workflow import workflow_context

def local(canary):
    return "canary"

async def handle(event):
    canary = event["data"]["canary"]
    match event["data"]["do"]:
        case "value":
            return canary
        case "raise":
            raise ValueError(canary)
        case "set":
            return {canary}
        case "exit":
            sys.exit(canary)
        case "kill":
            os.kill(os.getpid(), 9)
        case "wide":
            return canary * 1_000_000
    ctx = workflow_context()
    await ctx.local("canary", local, canary=canary)
    return ctx.complete(canary)
"""
BROKEN = "raise ValueError('canary')\n"


def own_lines(written: bytes) -> list[str]:
    return [line for line in written.decode().splitlines() if line.startswith("worker: ")]


async def test_no_line_of_the_worker_holds_application_data(
    coordinator: Any, start: Start, publish: Publish, refuse: Any, lost: Any
) -> None:
    """Data, outputs, errors, keys, states, names of programs; after failures and refusals too; messages of others."""
    named = {"program": {"id": CANARY, "version": CANARY}}
    program = publish(PROGRAM, **named)
    broken = publish(BROKEN, program={"id": CANARY, "version": "2"})
    data = {CANARY: CANARY}
    attempts = [
        coordinator.assign(program, {"do": do, **data}, event={"id": f"{CANARY}-{do}"})
        for do in ("value", "raise", "set", "exit", "kill", "wide")
    ]
    attempts.append(coordinator.assign(broken, data))
    attempts += [coordinator.activate(program, {"do": "workflow", **data}, state={CANARY: CANARY}) for _ in range(3)]
    for path in ("/v1/acquisitions", "/v1/renewals", "/v1/settlements", "/v1/workflows/local-results"):
        coordinator.script(path, refuse("unavailable", 503, f"{CANARY}\nworker: forged"), lost)
    coordinator.script("/v1/workflows/activations/context", refuse("invalid_input", 400, CANARY))
    bench = await start(frame_bytes=200_000, acquire_wait_ms=50)
    for attempt in attempts:
        await attempt.end()
    coordinator.script("/v1/acquisitions", refuse("invalid_input", 400, CANARY))
    assert (await bench.end()).failure is not None
    await bench.flushed()
    lines = own_lines(bench.output.getvalue())
    assert lines
    assert [line for line in lines if CANARY in line.lower() or "forged" in line] == []
    assert CANARY.encode() in bench.output.getvalue()  # what programs write themselves is passed on as it is


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\x85", "\u2028"])
def test_one_line_stays_one_line(break_: str, tmp_path: Any) -> None:
    """Whoever put the break into a message forges none."""
    with (tmp_path / "lines").open("wb") as stream:
        diagnostics = Diagnostics(stream)
        diagnostics.say(f"one{break_}worker: two")
        diagnostics.close(5.0)
    assert len((tmp_path / "lines").read_text().splitlines()) == 1
