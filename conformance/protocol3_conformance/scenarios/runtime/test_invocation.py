"""`current_invocation` and the names of `ledgence.worker` (chapter 23)."""

from __future__ import annotations

import textwrap

from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.faults import NotDetermined
from protocol3_conformance.wire.frames import traceparent
from protocol3_conformance.wire.strict_json import same

SHOW = """
    import dataclasses
    from ledgence.worker import current_invocation
    return dataclasses.asdict(current_invocation())
"""
ORDINARY = {
    "event_id": "evt_1",
    "attempt_id": "att_1",
    "source": "urn:ledgence:orchestrator",
    "tenant_id": "north",
    "namespace": "reports",
    "run_id": "run_1",
    "task_id": "task_1",
    "attempt_no": 1,
    "processing_context": None,
    "workflow_id": None,
    "activation_id": None,
    "parent_workflow_id": None,
    "root_workflow_id": None,
}

WORKFLOW_NAMES = sorted(
    (
        *("WorkflowError", "Workflow", "WorkflowContext", "workflow_context", "get_workflow_context", "TaskRef"),
        *("WorkflowRef", "BranchSpec", "ForkRef", "OperationKind", "ApprovalAction", "ApprovalDecision"),
        *("ApprovalStatus", "Approval", "SCHEMA"),
    )
)


@runtime_check(
    "runtime-helper/public-names", cites=["HLP-001", "HLP-002", "HLP-017", "HLP-019", "HLP-023", "HLP-024", "HLP-144"]
)
async def test_public_names(lab: RuntimeLab) -> None:
    """The public names, the fields of the data classes, the enumerations; `otel` imports nothing of OpenTelemetry."""
    code = """
        import dataclasses, sys
        import ledgence.worker, ledgence.worker.otel
        from ledgence.worker import InvocationContext, TraceContext
        fields = lambda cls: [field.name for field in dataclasses.fields(cls)]
        defined = ["SCHEMA"]  # a module without a list of its own has what it defines
        for name, value in vars(workflow).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == workflow.__name__:
                defined.append(name)
        return [
            sorted(ledgence.worker.__all__), sorted(getattr(workflow, "__all__", defined)),
            fields(InvocationContext), fields(TraceContext),
            [[member.name, member.value] for enum in (OperationKind, ApprovalStatus) for member in enum],
            workflow.SCHEMA, get_workflow_context is workflow_context,
            WorkflowError.__bases__ == (Exception,), issubclass(WorkflowRef, TaskRef),
            [name for name in sys.modules if name.startswith("opentelemetry")],
        ]
    """
    names = ["InvocationContext", "TraceContext", "current_invocation", "get_logger", "register_shutdown"]
    statuses = [[name.upper(), name] for name in ("pending", "approved", "rejected", "expired", "cancelled")]
    kinds = [["MODEL", "model"], ["TOOL", "tool"]]
    carrier = ["traceparent", "tracestate"]
    schema = "ledgence.workflow.activation.v1"
    found = await lab.output(code)
    assert found == [names, WORKFLOW_NAMES, list(ORDINARY), carrier, kinds + statuses, schema, True, True, True, []]


@runtime_check("runtime-helper/signatures", cites=["HLP-143", "HLP-005"])
async def test_signatures(lab: RuntimeLab) -> None:
    """Data classes are frozen with their defaults, functions take the named parameters, the package is typed."""
    code = """
        import dataclasses, inspect, pathlib
        import ledgence.worker as helper
        import ledgence.worker.otel
        frozen = []
        for made, name in ((helper.TraceContext("t"), "traceparent"), (helper.InvocationContext("e", "a"), "run_id")):
            try:
                setattr(made, name, "other")
            except dataclasses.FrozenInstanceError:
                frozen.append(dataclasses.asdict(made))
        parameters = lambda one: [[name, p.default is p.empty] for name, p in inspect.signature(one).parameters.items()]
        functions = (helper.current_invocation, helper.register_shutdown, helper.get_logger)
        typed = pathlib.Path(helper.__file__).with_name("py.typed").is_file()
        return [frozen, [parameters(one) for one in functions], typed]
    """
    trace = {"traceparent": "t", "tracestate": None}
    invocation = dict.fromkeys(ORDINARY) | {"event_id": "e", "attempt_id": "a"}
    assert await lab.output(code) == [[trace, invocation], [[], [["callback", True]], [["name", True]]], True]


@runtime_check("runtime-helper/without-a-worker", cites=["HLP-017", "HLP-005"])
async def test_without_a_worker(lab: RuntimeLab) -> None:
    """While importing, outside every invocation, log calls do not fail and `current_invocation` raises RuntimeError."""
    source = """
        from ledgence.worker import current_invocation, get_logger
        get_logger("x").info("importing")
        try:
            current_invocation()
        except RuntimeError:
            OUTSIDE = "raises"
        def handle(event): return OUTSIDE
    """
    for protocol in (1, 2, 3):
        program = await lab.start(source, protocol=protocol).ready()
        assert (await program.invoke())["output"] == "raises"


@runtime_check("runtime-helper/identity", cites=["HLP-002", "HLP-003", "HLP-004"])
async def test_identity(lab: RuntimeLab) -> None:
    """The identity is that of the event, the processing context that of the frame, the root falls back."""
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            assert same(await lab.output(SHOW, protocol=protocol), ORDINARY)
    first = await lab.start(
        "import dataclasses\nfrom ledgence.worker import current_invocation\n"
        "def handle(event):\n    return dataclasses.asdict(current_invocation())\n",
        protocol=1,
    ).ready()
    assert same((await first.invoke())["output"], ORDINARY)
    for state in (None, "a=1"):
        carrier = {"traceparent": traceparent(), "tracestate": state}
        found = await lab.output(SHOW, processing_context=carrier, event={"traceparent": traceparent("5" * 32)})
        assert same(found, ORDINARY | {"processing_context": carrier})
    for event, expected in (
        ({"ldgworkflowid": "w"}, {"workflow_id": "w", "root_workflow_id": "w"}),
        (
            {"ldgworkflowid": "w", "ldgparentworkflowid": "p", "ldgrootworkflowid": "r"},
            {"workflow_id": "w", "parent_workflow_id": "p", "root_workflow_id": "r"},
        ),
    ):
        with lab.case(repr(event)):
            assert same(await lab.output(SHOW, event=event), ORDINARY | expected)


@runtime_check("runtime-helper/identity-cannot-be-changed", cites=["HLP-002", "RUN-036"])
async def test_identity_cannot_be_changed(lab: RuntimeLab) -> None:
    """A handler that changes its event changes neither its identity nor that of its result; the object is frozen."""
    code = """
        import dataclasses
        from ledgence.worker import current_invocation
        event["id"] = event["ldgtaskid"] = "x"
        try:
            current_invocation().task_id = "x"
        except dataclasses.FrozenInstanceError:
            return [current_invocation().event_id, current_invocation().task_id]
    """
    assert await lab.output(code) == ["evt_1", "task_1"]


@runtime_check("runtime-helper/identity-everywhere", cites=["HLP-006"])
async def test_identity_everywhere(lab: RuntimeLab) -> None:
    """The identity is visible in local functions, child tasks and threads."""
    code = """
        from ledgence.worker import current_invocation
        def show():
            return current_invocation().activation_id
        async def show_later():
            return show()
        return ctx.complete([
            show(), await ctx.local("step", show), await ctx.local("async step", show_later),
            await asyncio.create_task(show_later()), await asyncio.to_thread(show),
        ])
    """
    await lab.holds(code, ["task_1"] * 5)


@runtime_check("runtime-helper/identity-ends", cites=["HLP-005", "HLP-006"])
async def test_identity_ends(lab: RuntimeLab) -> None:
    """The identity is reset after success, failure and invalid output."""
    code = """
        import threading
        from ledgence.worker import current_invocation
        done, go = threading.Event(), threading.Event()
        memory["go"], memory["done"] = go, done
        def later():
            go.wait()
            try:
                memory["seen"] = current_invocation()
            except RuntimeError:
                memory["seen"] = None
            done.set()
        threading.Thread(target=later, daemon=True).start()
    """
    for ending in ("return 1", "raise ValueError", "return {1}"):
        with lab.case(ending):
            await lab.task(textwrap.dedent(code) + ending)
            look = "memory['go'].set()\nmemory['done'].wait()\nreturn memory['seen'] is None"
            assert await lab.output(look) is True


@runtime_check("runtime-helper/nothing-in-the-environment", cites=["HLP-007"])
async def test_nothing_in_the_environment(lab: RuntimeLab) -> None:
    """No data of an invocation is placed in environment variables or in user data."""
    code = "import os\nreturn [dict(os.environ), event['data']]"
    environment, data = await lab.output(code)
    assert data == {"code": code, "data": None}
    words = ("evt_1", "att_1", "run_1", "task_1")
    assert not [name for name, value in environment.items() if any(word in value for word in words)]


@runtime_check("runtime-helper/otel-without-the-package", cites=["HLP-020", "HLP-019"])
async def test_otel_without_the_package(lab: RuntimeLab) -> None:
    """Without `opentelemetry-api` `enable_context` raises ImportError and the bridge stays off."""
    code = """
        from ledgence.worker import get_logger, otel
        try:
            import opentelemetry.context
        except ImportError:
            pass
        else:
            return "installed"
        try:
            otel.enable_context()
        except ImportError:
            get_logger("x").info("still off")
            return "raises"
    """
    found = await lab.output(code, processing_context={"traceparent": traceparent()})
    if found == "installed":
        raise NotDetermined("opentelemetry-api lies beside the helper, so a program process always finds it")
    assert found == "raises"
    [frame] = await (await lab.task_program()).logged(1)
    assert frame["trace_id"] == traceparent()[3:35]
