"""Names, signatures and data classes of the public API (chapter 23)."""

import json
import subprocess

import pytest

SIGNATURES = {
    "worker.TraceContext": "(traceparent, tracestate=None)",
    "worker.InvocationContext": (
        "(event_id, attempt_id, source=None, tenant_id=None, namespace=None, run_id=None, task_id=None,"
        " attempt_no=None, processing_context=None, workflow_id=None, activation_id=None, parent_workflow_id=None,"
        " root_workflow_id=None)"
    ),
    "worker.current_invocation": "()",
    "worker.register_shutdown": "(callback)",
    "worker.get_logger": "(name)",
    "otel.enable_context": "()",
    "workflow.workflow_context": "()",
    "workflow.get_workflow_context": "()",
    "workflow.Workflow": "(entries)",
    "workflow.Workflow.entrypoint": "(self, entry, *, default=False)",
    "workflow.Workflow.build": "(self)",
    "workflow.ApprovalAction": "(name, *, version, arguments)",
    "workflow.ApprovalAction.for_callable": "(fn, *, version, arguments)",
    "workflow.ApprovalAction.to_dict": "(self)",
    "workflow.Approval.to_dict": "(self)",
    "workflow.ApprovalDecision": "(decision_id, decision, reviewer, reason, decided_at)",
    "workflow.WorkflowContext": "(payload, rpc)",
    "workflow.TaskRef": "(key, context)",
    "workflow.WorkflowRef": "(key, context)",
    "workflow.ForkRef": "(key, branch_keys, _context)",
    "workflow.WorkflowContext.local": "(self, key, fn, **kwargs)",
    "workflow.WorkflowContext.gather": "(self, *operations)",
    "workflow.WorkflowContext.operation": "(self, key, fn, *, kind, version, arguments)",
    "workflow.WorkflowContext.approved_local": "(self, fn, *, version)",
    "workflow.WorkflowContext.task": (
        "(self, key, *, program, version, queue, data, retry_policy=None, attempt_timeout_ms=300000)"
    ),
    "workflow.WorkflowContext.workflow": (
        "(self, key, *, program, version, queue, data, retry_policy=None, attempt_timeout_ms=300000)"
    ),
    "workflow.WorkflowContext.branch": (
        "(self, key, *, entrypoint, queue, data, retry_policy=None, attempt_timeout_ms=300000)"
    ),
    "workflow.WorkflowContext.fork": "(self, key, *, branches)",
    "workflow.WorkflowContext.join": "(self, fork, *, resume, state)",
    "workflow.WorkflowContext.get_result": "(self, ref)",
    "workflow.WorkflowContext.suspend": "(self, *, continuation, state, until=())",
    "workflow.WorkflowContext.continue_": "(self, *, continuation, state)",
    "workflow.WorkflowContext.wait_event": "(self, key, *, continuation, state, timeout_ms=None)",
    "workflow.WorkflowContext.sleep": "(self, key, delay_ms, *, continuation, state)",
    "workflow.WorkflowContext.request_approval": (
        "(self, key, *, action, state, timeout_ms, continuation=None, resume=None, proposed_arguments=None)"
    ),
    "workflow.WorkflowContext.wait_approval": (
        "(self, key, *, action, state, timeout_ms, continuation=None, resume=None, proposed_arguments=None)"
    ),
    "workflow.WorkflowContext.complete": "(self, output)",
    "workflow.WorkflowContext.fail": "(self, kind, message)",
}

PROBE = """
import dataclasses, enum, inspect, json, sys, typing
sys.path.insert(0, sys.argv[1])
from ledgence.worker import otel, workflow
import ledgence.worker as worker
def bare(item):
    signature = inspect.signature(item)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))
def find(path):
    module, *names = path.split(".")
    item = {"worker": worker, "workflow": workflow, "otel": otel}[module]
    for name in names:
        item = getattr(item, name)
    return item
frozen = [worker.TraceContext, worker.InvocationContext, workflow.ApprovalAction, workflow.Approval,
          workflow.ApprovalDecision, workflow.BranchSpec, workflow.ForkRef]
print(json.dumps({
    "names": sorted(worker.__all__),
    "workflow_names": sorted(workflow.__all__),
    "signatures": {path: bare(find(path)) for path in json.loads(sys.argv[2])},
    "schema": workflow.SCHEMA,
    "kinds": {member.name: member.value for member in workflow.OperationKind},
    "statuses": {member.name: member.value for member in workflow.ApprovalStatus},
    "str_enums": [issubclass(item, enum.StrEnum) for item in (workflow.OperationKind, workflow.ApprovalStatus)],
    "error_bases": [base.__name__ for base in workflow.WorkflowError.__bases__],
    "ref_bases": [base.__name__ for base in workflow.WorkflowRef.__bases__],
    "frozen": [dataclasses.is_dataclass(item) and item.__dataclass_params__.frozen for item in frozen],
    "coroutines": [inspect.iscoroutinefunction(getattr(workflow.WorkflowContext, name)) for name in ("gather", "fork")],
    "same": workflow.get_workflow_context is workflow.workflow_context,
    "modules": sorted({find(path).__module__ for path in json.loads(sys.argv[2]) if path.count(".") == 1}),
    "hints": [sorted(typing.get_type_hints(item)) != [] for item in frozen],
    "opentelemetry": [name for name in sys.modules if name.startswith("opentelemetry")],
}))
"""


@pytest.fixture(scope="module")
def found(bootstrap, python):
    """What an interpreter sees that has the helper installed but no host."""
    command = [python, "-I", "-S", "-B", "-c", PROBE, str(bootstrap.parents[2]), json.dumps(list(SIGNATURES))]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_the_public_names_of_the_package(found):
    """HLP-001."""
    names = ["InvocationContext", "TraceContext", "current_invocation", "get_logger", "register_shutdown"]
    assert found["names"] == names


def test_the_public_names_of_the_workflow_module(found):
    """HLP-144."""
    assert found["workflow_names"] == sorted(
        [
            *("WorkflowError", "Workflow", "WorkflowContext", "workflow_context", "get_workflow_context", "TaskRef"),
            *("WorkflowRef", "BranchSpec", "ForkRef", "OperationKind", "ApprovalAction", "ApprovalDecision"),
            *("ApprovalStatus", "Approval", "SCHEMA"),
        ]
    )


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures(found, path):
    """Chapter 23: names, kinds, defaults (HLP-143)."""
    assert found["signatures"][path] == SIGNATURES[path]


def test_enumerations_and_constants(found):
    """HLP-024, RUN-061."""
    assert found["schema"] == "ledgence.workflow.activation.v1"
    assert found["kinds"] == {"MODEL": "model", "TOOL": "tool"}
    assert found["statuses"] == {
        name.upper(): name for name in ("pending", "approved", "rejected", "expired", "cancelled")
    }
    assert found["str_enums"] == [True, True]


def test_classes(found):
    """HLP-023, HLP-082, HLP-084, HLP-111; chapter 23, Children."""
    assert found["error_bases"] == ["Exception"]
    assert found["ref_bases"] == ["TaskRef"]
    assert all(found["frozen"])
    assert found["coroutines"] == [True, True]
    assert found["same"] is True


def test_public_names_name_the_module_that_programs_import_them_from(found):
    """Chapter 23: in tracebacks and recorded callables (HLP-050) too."""
    assert found["modules"] == ["ledgence.worker", "ledgence.worker.otel", "ledgence.worker.workflow"]
    assert all(found["hints"])


def test_importing_the_bridge_imports_no_opentelemetry(found):
    """HLP-019."""
    assert found["opentelemetry"] == []


def test_the_package_is_typed(bootstrap):
    """Chapter 23: a `py.typed` marker (HLP-143)."""
    assert (bootstrap.parent / "py.typed").is_file()


def test_the_helper_works_without_a_host(bootstrap, python):
    """HLP-005, HLP-017, HLP-032."""
    code = """
import logging, sys
sys.path.insert(0, sys.argv[1])
from ledgence.worker import current_invocation, get_logger
from ledgence.worker.workflow import WorkflowError, workflow_context
log = get_logger("x")
log.error("text", extra={"attributes": {"a": 1}})
for call, expected in ((current_invocation, RuntimeError), (workflow_context, WorkflowError)):
    try:
        call()
    except expected:
        print("refused")
"""
    command = [python, "-I", "-S", "-B", "-c", code, str(bootstrap.parents[2])]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"refused\nrefused\n"
