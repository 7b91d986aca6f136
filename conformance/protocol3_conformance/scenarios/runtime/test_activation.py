"""What makes an activation, and what a result of one is (chapter 21, Workflow extension)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.roles.program import SCHEMA, activation
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import payloads, runtime_check
from protocol3_conformance.wire.frames import Frame

CALLED = "print('<called>', flush=True)\nreturn ctx.complete('called')"


async def all_refused(lab: RuntimeLab, table: dict[str, Frame]) -> None:
    """Each payload is a `workflow_error` without a call of the handler, and the same process takes the next one."""
    first = await lab.task_program()
    for name, changes in table.items():
        with lab.case(name):
            await lab.refused(CALLED, **changes)
    assert "<called>" not in first.process.stderr()
    assert await lab.completed(CALLED) == "called"
    assert await lab.task_program() is first


@runtime_check("runtime-activation/valid-payloads", cites=["RUN-062", "RUN-068", "RUN-069", "HLP-044", "HLP-047"])
async def test_valid_payloads(lab: RuntimeLab) -> None:
    """Every valid context runs the handler: all shapes of outcomes and wakes, all bounds at their edge."""
    for name, changes in payloads.VALID.items():
        with lab.case(name):
            assert await lab.completed("return ctx.complete('called')", **changes) == "called"


@runtime_check("runtime-activation/invalid-members", cites=["RUN-062", "RUN-065"])
async def test_invalid_members(lab: RuntimeLab) -> None:
    """A member that is missing, too many, of another type or over its bound."""
    await all_refused(lab, payloads.INVALID_SHAPE)


@runtime_check("runtime-activation/invalid-inputs", cites=["RUN-068", "RUN-062"])
async def test_invalid_inputs(lab: RuntimeLab) -> None:
    """An outcome of a child that is none of the shapes."""
    await all_refused(lab, payloads.INVALID_INPUTS)


@runtime_check("runtime-activation/invalid-wakes", cites=["RUN-069", "RUN-062"])
async def test_invalid_wakes(lab: RuntimeLab) -> None:
    """A wake that is none of the kinds."""
    await all_refused(lab, payloads.INVALID_WAKES)


@runtime_check("runtime-activation/invalid-events", cites=["RUN-069", "HLP-047", "TXT-020", "TXT-027", "TXT-041"])
async def test_invalid_events(lab: RuntimeLab) -> None:
    """A wake by an event that is no CloudEvent of the profile."""
    await all_refused(lab, payloads.INVALID_EVENTS)


@runtime_check("runtime-activation/approval-wakes", cites=["RUN-069", "RUN-070", "RUN-062", "HLP-146"])
async def test_approval_wakes(lab: RuntimeLab) -> None:
    """A wake by an approval names this workflow, this activation and the revision before."""
    for name, changes in payloads.VALID_APPROVALS.items():
        with lab.case(name):
            assert await lab.completed("return ctx.complete('called')", **changes) == "called"
    await all_refused(lab, payloads.INVALID_APPROVALS)


@runtime_check("runtime-activation/unknown-extensions", cites=["RUN-061", "RUN-065"])
async def test_unknown_extensions(lab: RuntimeLab) -> None:
    """An extension other than exactly schema and payload of the one schema is a `workflow_error`."""
    program = await lab.task_program()
    extensions: tuple[Any, ...] = (
        {},
        [],
        "text",
        1,
        False,
        {"schema": SCHEMA},
        {"schema": SCHEMA.replace("v1", "v2"), "payload": activation()},
        {"schema": None, "payload": {}},
        {"schema": SCHEMA, "payload": None},
        {"schema": SCHEMA, "payload": activation(), "extra": 1},
    )
    for extension in extensions:
        with lab.case(repr(extension)):
            changed = {"ldgactivationid": "task_1", "ldgworkflowid": "wf_1"}
            result = await program.invoke({"code": CALLED}, extension=extension, event=changed)
            assert result["status"] == "runtime_error"
    assert "<called>" not in program.process.stderr()
    assert await lab.completed(CALLED) == "called"


@runtime_check("runtime-activation/payload-of-another-event", cites=["RUN-063"])
async def test_payload_of_another_event(lab: RuntimeLab) -> None:
    """The identities of payload and event agree, else the handler is not called."""
    for changed, payload in payloads.MISMATCHES:
        with lab.case(f"{changed} beside {payload}"):
            await lab.refused(CALLED, invoke={"event": changed}, **payload)
    assert "<called>" not in (await lab.task_program()).process.stderr()
    assert await lab.completed(CALLED, invoke={"event": {"ldgrootworkflowid": "wf_1"}}) == "called"


@runtime_check("runtime-activation/every-exception", cites=["RUN-064", "RUN-065", "HLP-125"])
async def test_every_exception(lab: RuntimeLab) -> None:
    """Whatever goes wrong in an activation is `runtime_error` of kind `workflow_error`; the process stays usable."""
    first = await lab.task_program()
    for code in (
        "raise ValueError('x')",
        "return 1",
        "return {1}",
        "return None",
        "return ctx.complete(object())",
        "return ctx.complete('x' * 300000)",
        "ctx.local('k', boom)\nreturn ctx.complete(1)",
    ):
        with lab.case(code):
            await lab.refused(code)
    assert await lab.completed("return ctx.complete('next')") == "next"
    assert await lab.task_program() is first


@runtime_check("runtime-activation/too-large-for-the-frame", cites=["RUN-064", "RUN-053"])
async def test_too_large_for_the_frame(lab: RuntimeLab) -> None:
    """A decision that does not fit the output limit is a `workflow_error`, not `invalid_output`."""
    source = """
        from ledgence.worker.workflow import workflow_context
        def handle(event):
            return workflow_context().complete("x" * event["data"])
    """
    program = await lab.start(source, limit=4096).ready()
    assert (await program.invoke(3000, payload=activation()))["status"] == "success"
    assert (await program.invoke(5000, payload=activation()))["status"] == "runtime_error"
    assert (await program.invoke(10, payload=activation()))["status"] == "success"
