"""Activation payloads, what the context shows of them (1.6, 3.5, 3.6)."""

from collections.abc import Iterator
from typing import Any

from parity.case import SCHEMA, Case, Frame, Step, activation, controller, invoke

SHOW = (
    "return ctx.complete([ctx.workflow_id, ctx.activation_id, ctx.revision, ctx.continuation, ctx.entrypoint, ctx.state,"
    " ctx.inputs, ctx.wake, ctx.parent_workflow_id, ctx.root_workflow_id, None if ctx.approval is None else ctx.approval.to_dict()])"
)

PAYLOADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "v-true": {"v": True},
    "v-float": {"v": 1.0},
    "v-2": {"v": 2},
    "v-missing": {"v": ...},
    "extra": {"x": 1},
    "revision-max": {"revision": 2**64 - 1},
    "revision-above": {"revision": 2**64},
    "revision-negative": {"revision": -1},
    "revision-float": {"revision": 1.0},
    "revision-true": {"revision": True},
    "continuation-empty": {"continuation": ""},
    "continuation-128": {"continuation": "c" * 128},
    "continuation-129": {"continuation": "c" * 129},
    "continuation-control": {"continuation": "a\n"},
    "continuation-null": {"continuation": None},
    "state-missing": {"state": ...},
    "state-bytes": {"state": "x" * 65534},
    "state-bytes-above": {"state": "x" * 65535},
    "state-floats": {"state": [0.1234567890123456] * 4000},
    "state-floats-allowed": {"state": [1e-07] * 13107},
    "state-order": {"state": {"b": 1, "a": {"d": 1.0, "c": [-0.0]}}},
    "state-unicode": {"state": "ä€𝄞\u2028\x00\ufdd0"},
    "inputs-missing": {"inputs": ...},
    "inputs-list": {"inputs": []},
    "inputs-null": {"inputs": None},
    "steps-missing": {"local_steps": ...},
    "steps-object": {"local_steps": {}},
    "steps-item": {"local_steps": [1]},
    "steps-extra": {"local_steps": [{"key": "k", "callable": "c", "input": {}, "output": 1, "x": 1}]},
    "steps-short": {"local_steps": [{"key": "k", "callable": "c", "input": {}}]},
    "steps-key": {"local_steps": [{"key": "", "callable": "c", "input": {}, "output": 1}]},
    "steps-callable": {"local_steps": [{"key": "k", "callable": "c" * 513, "input": {}, "output": 1}]},
    "steps-callable-512": {"local_steps": [{"key": "k", "callable": "c" * 512, "input": {}, "output": 1}]},
    "steps-twice": {"local_steps": [{"key": "k", "callable": "c", "input": {}, "output": 1}] * 2},
    "steps-approval-key": {"local_steps": [{"key": "_approval:x", "callable": "c", "input": {}, "output": 1}]},
    "steps-129": {"local_steps": [{"key": f"k{n}", "callable": "c", "input": {}, "output": 1} for n in range(129)]},
    "steps-bytes": {
        "local_steps": [{"key": f"k{n}", "callable": "c", "input": {}, "output": "x" * 90000} for n in range(3)]
    },
    "step-bytes": {"local_steps": [{"key": "k", "callable": "c", "input": {}, "output": "x" * 131072}]},
    "parent": {"parent_workflow_id": "p", "root_workflow_id": "r"},
    "parent-same": {"parent_workflow_id": "p", "root_workflow_id": "p"},
    "parent-alone": {"parent_workflow_id": "p"},
    "root-alone": {"root_workflow_id": "r"},
    "parent-self": {"parent_workflow_id": "wf", "root_workflow_id": "r"},
    "root-self": {"parent_workflow_id": "p", "root_workflow_id": "wf"},
    "parent-null": {"parent_workflow_id": None, "root_workflow_id": None},
    "parent-empty": {"parent_workflow_id": "", "root_workflow_id": "r"},
    "wake-null": {"wake": None},
    "wake-empty": {"wake": {}},
    "workflow-id": {"workflow_id": "other"},
    "workflow-id-empty": {"workflow_id": ""},
    "activation-id": {"activation_id": "other"},
    "activation-id-number": {"activation_id": 1},
}

TASK_OK = {
    "task_id": "t",
    "state": "succeeded",
    "outcome": {
        "kind": "succeeded",
        "attempt_id": "a",
        "quiescence": "confirmed",
        "execution_may_have_started": True,
        "output": {"b": 1, "a": 1.0},
    },
}
APPLICATION = {"kind": "application", "error": {"kind": "k", "message": "m"}}
EXECUTION = {
    "kind": "execution",
    "error": {"kind": "runtime", "message": ""},
    "phase": "execution",
    "cleanup_error": None,
}


def _failed(failure: Any, started: Any = True, quiescence: str = "confirmed", **more: Any) -> Frame:
    outcome = {"kind": "failed", "attempt_id": "a", "quiescence": quiescence, "execution_may_have_started": started}
    return {"task_id": "t", "state": "failed", "outcome": outcome | {"failure": failure} | more}


def _succeeded(**changes: Any) -> Frame:
    outcome = {name: value for name, value in (TASK_OK["outcome"] | changes).items() if value is not ...}  # type: ignore[operator]  # the union of the literal's values
    return TASK_OK | {"outcome": outcome}


def _workflow(state: str, **outcome: Any) -> Frame:
    return {"kind": "workflow", "workflow_id": "w", "state": state, "outcome": {"kind": state} | outcome}


INPUTS: dict[str, Any] = {
    "task": TASK_OK,
    "task-unconfirmed": _succeeded(quiescence="unconfirmed"),
    "task-quiescence": _succeeded(quiescence="x"),
    "task-started-false": _succeeded(execution_may_have_started=False),
    "task-started-one": _succeeded(execution_may_have_started=1),
    "task-no-output": _succeeded(output=...),
    "task-extra": _succeeded(x=1),
    "task-attempt": _succeeded(attempt_id=""),
    "task-outer-extra": TASK_OK | {"x": 1},
    "task-state": TASK_OK | {"state": "failed"},
    "task-id": TASK_OK | {"task_id": "t" * 129},
    "task-kind": TASK_OK | {"kind": "task"},
    "task-kind-null": TASK_OK | {"kind": None},
    "task-cancelled": {"task_id": "t", "state": "cancelled", "outcome": {"kind": "cancelled"}},
    "task-cancelled-extra": {"task_id": "t", "state": "cancelled", "outcome": {"kind": "cancelled", "x": 1}},
    "failed-application": _failed(APPLICATION),
    "failed-application-not-started": _failed(APPLICATION, started=False),
    "failed-application-kind": _failed({"kind": "application", "error": {"kind": "", "message": "m"}}),
    "failed-application-long-kind": _failed({"kind": "application", "error": {"kind": "k" * 300, "message": "m"}}),
    "failed-application-long": _failed({"kind": "application", "error": {"kind": "k", "message": "m" * 5000}}),
    "failed-application-control": _failed({"kind": "application", "error": {"kind": "a\nb", "message": "a\nb"}}),
    "failed-execution": _failed(EXECUTION),
    "failed-execution-not-started": _failed(EXECUTION, started=False),
    "failed-execution-kind": _failed(EXECUTION | {"error": {"kind": "strange", "message": ""}}),
    "failed-execution-phase": _failed(EXECUTION | {"phase": "strange"}),
    "failed-execution-phase-empty": _failed(EXECUTION | {"phase": ""}),
    "failed-execution-cleanup": _failed(EXECUTION | {"cleanup_error": {"kind": "io", "message": "m"}}),
    "failed-execution-cleanup-kind": _failed(EXECUTION | {"cleanup_error": {"kind": "strange", "message": "m"}}),
    "failed-execution-cleanup-missing": _failed({k: v for k, v in EXECUTION.items() if k != "cleanup_error"}),
    "failed-lost": _failed({"kind": "attempt_lost"}, quiescence="unconfirmed"),
    "failed-lost-confirmed": _failed({"kind": "attempt_lost"}),
    "failed-lost-extra": _failed({"kind": "attempt_lost", "x": 1}, quiescence="unconfirmed"),
    "failed-unknown": _failed({"kind": "strange"}),
    "failed-null": _failed(None),
    "workflow": _workflow("succeeded", output=[1]),
    "workflow-no-output": _workflow("succeeded"),
    "workflow-failed": _workflow("failed", error={"kind": "k", "message": "m"}),
    "workflow-failed-long": _workflow("failed", error={"kind": "k", "message": "m" * 4097}),
    "workflow-failed-kind": _workflow("failed", error={"kind": "k" * 129, "message": "m"}),
    "workflow-failed-extra": _workflow("failed", error={"kind": "k", "message": "m", "x": 1}),
    "workflow-cancelled": _workflow("cancelled"),
    "workflow-cancelled-extra": _workflow("cancelled", output=1),
    "workflow-running": _workflow("running"),
    "workflow-mixed": _workflow("succeeded", output=1) | {"state": "failed"},
    "workflow-task-id": _workflow("succeeded", output=1) | {"task_id": "t"},
    "null": None,
    "text": "x",
    "empty": {},
}


def cases() -> Iterator[Case]:
    for name, changes in PAYLOADS.items():
        payload = activation(**changes)
        frame = invoke({"code": SHOW}, payload=payload)
        yield Case(name=f"payload/{name}", steps=(Step(line=frame),))
    for name, entry in INPUTS.items():
        body = SHOW.replace(
            "return", "try:\n    got = ctx.get_result('k')\nexcept Exception as e:\n    got = type(e).__name__\nreturn"
        ).replace("[ctx.w", "[got, ctx.w")
        yield controller(f"input/{name}", body, inputs={"k": entry})
    yield controller("input/many", SHOW, inputs={f"k{n}": TASK_OK for n in range(64)})
    yield controller("input/too-many", SHOW, inputs={f"k{n}": TASK_OK for n in range(65)})
    yield controller("input/key", SHOW, inputs={"": TASK_OK})
    yield controller("input/bytes", SHOW, inputs={f"k{n}": _succeeded(output="x" * 130900) for n in range(2)})
    yield controller("input/bytes-above", SHOW, inputs={f"k{n}": _succeeded(output="x" * 131072) for n in range(2)})
    yield from _results()
    yield from _extensions()


def _results() -> Iterator[Case]:
    body = (
        "r = ctx.{kind}('k', program='p', version='1', queue='q', data=1)\n"
        "try:\n    got = ctx.get_result(r)\nexcept Exception as e:\n    got = type(e).__name__\n"
        "return ctx.continue_(continuation='c', state=got)"
    )
    for kind in ("task", "workflow"):
        for name in ("task", "workflow", "task-cancelled", "workflow-failed"):
            yield controller(f"result/{kind}-of-{name}", body.format(kind=kind), inputs={"k": INPUTS[name]})
    odd = "return ctx.complete([refused(ctx.get_result, r) for r in ('x', None, 1, '', [], ctx, type('S', (str,), {})('k'))])"
    yield controller("result/odd", odd, inputs={"k": TASK_OK})
    copies = "ctx.get_result('k')['a'] = 5\nctx.inputs['k']['state'] = 'x'\nctx.inputs.clear()\nreturn ctx.complete([ctx.get_result('k'), list(ctx.get_result('k')), ctx.inputs])"
    yield controller("result/copies", copies, inputs={"k": TASK_OK})
    state = "ctx.state['a'] = 5\nreturn ctx.complete([ctx.state, list(ctx.state), ctx.state is ctx.state])"
    yield controller("result/state-copies", state, state={"b": 1, "a": [2]})
    setting = "found = []\nfor name in ('state', 'workflow_id', 'revision', 'entrypoint', 'inputs', 'wake', 'approval', 'other'):\n    try:\n        setattr(ctx, name, 1)\n        found.append('set')\n    except Exception as e:\n        found.append(type(e).__name__)\nreturn None"
    yield controller("result/set-attributes", setting)


def _extensions() -> Iterator[Case]:
    payload = activation()
    good = {"schema": SCHEMA, "payload": payload}
    extensions: dict[str, Any] = {
        "null": None,
        "other-schema": good | {"schema": "ledgence.workflow.activation.v2"},
        "schema-null": good | {"schema": None},
        "extra": good | {"x": 1},
        "no-payload": {"schema": SCHEMA},
        "payload-null": good | {"payload": None},
        "payload-list": good | {"payload": []},
        "list": [],
        "text": "x",
        "false": False,
        "zero": 0,
        "empty": {},
    }
    for name, extension in extensions.items():
        frame = invoke({"code": "return 'called'"}, payload=payload, extension=extension)
        yield Case(name=f"extension/{name}", steps=(Step(line=frame),))
    for protocol in (1, 2):
        frame = invoke({"code": "return 'called'"}, protocol=protocol, extension=good)
        yield Case(name=f"extension/v{protocol}", protocol=protocol, steps=(Step(line=frame),))
    nested = activation(parent_workflow_id="p", root_workflow_id="r")
    events: dict[str, dict[str, Any]] = {
        "task-id": {"ldgtaskid": "x"},
        "activation-id": {"ldgactivationid": "x"},
        "workflow-id": {"ldgworkflowid": "x"},
        "parent": {"ldgparentworkflowid": "x"},
        "root": {"ldgrootworkflowid": "x"},
        "root-own": {"ldgrootworkflowid": "wf"},
        "parent-null": {"ldgparentworkflowid": None},
        "root-null": {"ldgrootworkflowid": None},
        "nothing-changed": {},
    }
    for name, event in events.items():
        for kind, body in {"root": payload, "nested": nested}.items():
            frame = invoke({"code": SHOW}, payload=body, event=event)
            yield Case(name=f"extension/event/{kind}/{name}", steps=(Step(line=frame),))
