"""What a result tells about its invocation (chapter 21, Observations)."""

from __future__ import annotations

import time
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import accepted, activation, refusing
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import compact_size, encode

OLD = {"key": "old", "callable": "program:add", "input": {"x": 1}, "output": 1}
OBSERVE: Frame = {"observe": True}


async def steps(lab: RuntimeLab, code: str, **settings: Any) -> list[list[str]]:
    """Key and state of every step of an observed activation."""
    result = await lab.workflow(code, invoke=OBSERVE, **settings)
    assert "observations" in result
    return [[step["key"], step["state"]] for step in result["observations"]["local_steps"]]


@runtime_check("runtime-observations/exactly-true", cites=["RUN-039", "RUN-086"])
async def test_exactly_true(lab: RuntimeLab) -> None:
    """Only `observe` that is exactly true asks for observations, in all versions, whatever comes of the invocation."""
    for value in (..., False, None, 1, 1.0, "true"):
        with lab.case(repr(value)):
            assert "observations" not in await lab.task("return 1", observe=value)
    for protocol in (2, 3):
        for code in ("return 1", "raise ValueError", "return {1}"):
            with lab.case(f"{code} in protocol {protocol}"):
                assert "observations" in await lab.task(code, observe=True, protocol=protocol)
    first = await lab.start("def handle(event):\n    return 1", protocol=1).ready()
    assert "observations" in await first.invoke(observe=True)
    payloads: tuple[Frame, ...] = ({}, {"v": 2})
    for payload in payloads:
        with lab.case(f"runtime_error, payload {payload}"):
            result = await lab.workflow("raise ValueError", invoke=OBSERVE, **payload)
            assert (result["status"], "observations" in result) == ("runtime_error", True)


@runtime_check("runtime-observations/measures", cites=["RUN-087", "RUN-088", "RUN-089"])
async def test_measures(lab: RuntimeLab) -> None:
    """Wall-clock start, elapsed time of the handler, CPU time of the process without its children, peak memory."""
    code = """
        import subprocess, sys, time
        end = time.process_time() + 0.03
        while time.process_time() < end: pass
        time.sleep(0.02)
        if data:
            subprocess.run([sys.executable, "-I", "-S", "-c", "import time\\nwhile time.process_time() < 0.5: pass"])
        return 1
    """
    before = time.time_ns() // 1_000_000
    found = (await lab.task(code, observe=True))["observations"]
    after = time.time_ns() // 1_000_000
    assert before <= found["runtime_started_at_ms"] <= after
    assert 50_000 <= found["runtime_elapsed_us"] <= (after - before + 1) * 1000
    spent = [found["process_cpu_user_us"], found["process_cpu_system_us"]]
    if None not in spent:
        assert sum(spent) >= 25_000
        child = (await lab.task(code, True, observe=True))["observations"]
        assert child["process_cpu_user_us"] + child["process_cpu_system_us"] < 450_000
        short = (await lab.task("return 1", observe=True))["observations"]
        assert short["process_cpu_user_us"] + short["process_cpu_system_us"] < 25_000, "earlier invocations count"
    peak = found["process_lifetime_peak_rss_bytes"]
    assert peak is None or peak > 1_000_000
    assert (found["local_steps"], found["local_steps_truncated"]) == ([], False)


@runtime_check("runtime-observations/waits-are-covered", cites=["RUN-087"])
async def test_waits_are_covered(lab: RuntimeLab) -> None:
    """The elapsed time covers the wait for an acknowledgement."""
    program = await lab.task_program()
    code = "return ctx.complete(await ctx.local('k', add, x=1))"
    await program.send(program.invocation({"code": code}, payload=activation(), observe=True))
    request = await program.frame()
    assert request is not None
    asked = time.monotonic()
    assert await program.silent(0.1)
    waited_us = (time.monotonic() - asked) * 1e6
    await program.send(accepted(request))
    assert (await program.result())["observations"]["runtime_elapsed_us"] >= waited_us


@runtime_check("runtime-observations/step-states", cites=["RUN-090", "RUN-091", "RUN-095"])
async def test_step_states(lab: RuntimeLab) -> None:
    """Steps are replayed, returned, failed or cancelled; two calls of one key are one entry."""
    code = """
        await ctx.gather(ctx.local("old", add, x=1), ctx.local("new", add, x=1), ctx.local("new", add, x=1))
        await asyncio.gather(ctx.local("bad", boom), return_exceptions=True)
        await refused_later(ctx.local("odd", object))
        return ctx.complete(None)
    """
    found = await steps(lab, code, local_steps=[OLD])
    assert found == [["old", "replayed"], ["new", "returned"], ["bad", "failed"], ["odd", "failed"]]
    running = "ctx.local('slow', later, value=1, turns=1000000)\nawait asyncio.sleep(0)\nraise ValueError"
    assert await steps(lab, running) == [["slow", "cancelled"]]


@runtime_check("runtime-observations/returned-is-not-accepted", cites=["RUN-091"])
async def test_returned_is_not_accepted(lab: RuntimeLab) -> None:
    """A failed acknowledgement changes nothing of `returned`."""
    code = "return ctx.complete(await ctx.local('k', add, x=1))"
    assert await steps(lab, code, reply=refusing) == [["k", "returned"]]


@runtime_check("runtime-observations/no-application-data", cites=["RUN-092"])
async def test_no_application_data(lab: RuntimeLab) -> None:
    """No inputs, outputs or texts of exceptions appear; the callable and the key do."""
    code = """
        ctx.local("k", identity, value="SECRET-INPUT")
        await asyncio.gather(ctx.local("bad", boom, message="SECRET-ERROR"), return_exceptions=True)
        return ctx.complete(None)
    """
    result = await lab.workflow(code, invoke=OBSERVE)
    assert b"SECRET" not in encode(result["observations"])
    assert [step["callable"] for step in result["observations"]["local_steps"]] == ["program:identity", "program:boom"]


@runtime_check("runtime-observations/bounded", cites=["RUN-092", "HLP-057"])
async def test_bounded(lab: RuntimeLab) -> None:
    """128 entries are kept; more bytes than 128 KiB drop entries from the end and say so."""
    most = bound("OBSERVATIONS_BYTES")
    many = "for n in range(128):\n    await ctx.local(str(n), add, x=n)\nreturn ctx.complete(None)"
    result = await lab.workflow(many, invoke=OBSERVE)
    found = result["observations"]
    assert (len(found["local_steps"]), found["local_steps_truncated"]) == (128, False)
    code = """
        add.__qualname__ = '\\\\' * 500
        try:
            for n in range(128):
                await ctx.local(f"{n:03d}".ljust(128, '"'), add, x=n)
        finally:
            add.__qualname__ = 'add'
        return ctx.complete(None)
    """
    found = (await lab.workflow(code, invoke=OBSERVE))["observations"]
    assert found["local_steps_truncated"] is True
    numbers = [int(step["key"][:3]) for step in found["local_steps"]]
    assert numbers == list(range(len(numbers)))
    step = compact_size(found["local_steps"][0]) + 1
    assert most - 2 * step < compact_size(found) <= most


@runtime_check("runtime-observations/dropped-for-the-output", cites=["RUN-093"])
async def test_dropped_for_the_output(lab: RuntimeLab) -> None:
    """When output and observations do not fit the frame together, the output is sent."""
    program = await lab.start("def handle(event):\n    return 'x' * event['data']\n", limit=1000).ready()
    assert "observations" in await program.invoke(10, observe=True)
    found = await program.invoke(850, observe=True)
    assert (len(found["output"]), "observations" in found) == (850, False)
