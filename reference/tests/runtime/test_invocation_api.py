"""`current_invocation` (chapter 23, `ledgence.worker`)."""

import textwrap

import pytest

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SHOW = """
    import dataclasses
    from ledgence.worker import current_invocation
    return dataclasses.asdict(current_invocation())
"""
ORDINARY = {
    "event_id": "ev",
    "attempt_id": "at",
    "source": "urn:host",
    "tenant_id": "tenant",
    "namespace": "space",
    "run_id": "run",
    "task_id": "act",
    "attempt_no": 1,
    "processing_context": None,
    "workflow_id": None,
    "activation_id": None,
    "parent_workflow_id": None,
    "root_workflow_id": None,
}


@pytest.mark.parametrize("name", ["lab", "lab2"])
def test_the_identity_of_an_ordinary_task(request, name):
    """HLP-002 … HLP-004."""
    assert request.getfixturevalue(name).output(SHOW) == ORDINARY


def test_protocol_1_has_an_identity_too(hosts, package):
    """HLP-002."""
    source = """
        import dataclasses
        from ledgence.worker import current_invocation
        def handle(event):
            return dataclasses.asdict(current_invocation())
    """
    assert hosts(package(source), protocol=1).ready().invoke()["output"] == ORDINARY


@pytest.mark.parametrize("state", [None, "a=1"])
def test_the_processing_context_is_the_frames_carrier(lab, state):
    """HLP-004, RUN-109."""
    carrier = {"traceparent": PARENT, "tracestate": state}
    found = lab.output(SHOW, processing_context=carrier, event={"traceparent": PARENT.replace("4b", "5b")})
    assert found == ORDINARY | {"processing_context": carrier}
    code = "from ledgence.worker import TraceContext, current_invocation\nc = current_invocation().processing_context\n"
    assert lab.output(code + "return type(c) is TraceContext", processing_context=carrier) is True


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"ldgworkflowid": "wf"}, {"workflow_id": "wf", "root_workflow_id": "wf"}),
        (
            {"ldgworkflowid": "wf", "ldgparentworkflowid": "p", "ldgrootworkflowid": "r"},
            {"workflow_id": "wf", "parent_workflow_id": "p", "root_workflow_id": "r"},
        ),
    ],
)
def test_the_root_falls_back_to_the_workflow(lab, event, expected):
    """HLP-003."""
    assert lab.output(SHOW, event=event) == ORDINARY | expected


def test_the_identity_is_visible_in_steps_tasks_and_threads(lab):
    """HLP-006."""
    code = """
        from ledgence.worker import current_invocation
        def show():
            return current_invocation().activation_id
        async def show_later():
            return show()
        return ctx.complete([
            show(),
            await ctx.local("step", show),
            await ctx.local("async step", show_later),
            await asyncio.create_task(show_later()),
            await asyncio.to_thread(show),
        ])
    """
    assert lab.completed(code) == ["act"] * 5


@pytest.mark.parametrize("ending", ["return 1", "raise ValueError", "return {1}"])
def test_the_identity_ends_with_the_invocation(lab, ending):
    """HLP-005, HLP-006."""
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
    lab.task(textwrap.dedent(code) + ending)
    assert lab.output("memory['go'].set()\nmemory['done'].wait()\nreturn memory['seen'] is None") is True


def test_nothing_is_put_into_the_environment_or_the_data(lab):
    """HLP-007."""
    code = "import os\nreturn [sorted(os.environ), event['data']]"
    names, data = lab.output(code)
    assert data == {"code": code, "data": None}
    assert not [name for name in names if "LEDGENCE" in name.upper() or "LDG" in name.upper()]


def test_a_handler_that_changes_the_event_does_not_change_its_identity(lab):
    """HLP-002, RUN-036."""
    code = "from ledgence.worker import current_invocation\nevent['id'] = event['ldgtaskid'] = 'x'\n"
    assert lab.output(code + "return [current_invocation().event_id, current_invocation().task_id]") == ["ev", "act"]


def test_the_identity_cannot_be_changed(lab):
    """Chapter 23, `ledgence.worker`: frozen."""
    code = """
        import dataclasses
        from ledgence.worker import current_invocation
        try:
            current_invocation().task_id = "x"
        except dataclasses.FrozenInstanceError:
            return "frozen"
    """
    assert lab.output(code) == "frozen"
