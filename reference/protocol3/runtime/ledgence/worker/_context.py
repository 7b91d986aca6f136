"""`WorkflowContext`: everything a controller can do in one activation (chapter 23).

Each method checks that it may be used now, then hands over to the module of its subject.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from . import _approved, _children, _decisions, _draining, _operations
from ._activation import Activation
from ._approval_objects import Approval, ApprovalAction
from ._calls import Function, callable_name
from ._checks import text
from ._errors import WorkflowError
from ._exact import canonical, copy
from ._forks import Forks
from ._journal import Journal, LocalResult, inside_step
from ._limits import BRANCHES, DATA_DEPTH, DEFAULT_ATTEMPT_TIMEOUT_MS, LOCAL_RECORDS
from ._observations import Meter
from ._operations import OperationKind
from ._references import BranchSpec, ForkRef, TaskRef, WorkflowRef
from ._registry import Registry
from ._requests import Requests, Rpc

_current: ContextVar[WorkflowContext | None] = ContextVar("ledgence.worker.workflow_context", default=None)

Target = str | StrEnum
RetryPolicy = dict[str, int]
Decision = dict[str, Any]


def workflow_context() -> WorkflowContext:
    """The context of the running activation. Raises WorkflowError outside one, and after its end (HLP-032)."""
    context = _current.get()
    if context is None or context._ended:
        raise WorkflowError("no workflow activation is running here")
    return context


class WorkflowContext:
    """The running activation. Built by the helper only, inside the activation's event loop (HLP-033).

    Nothing else crosses from one activation to the next (HLP-043); its journal begins empty (HLP-069).
    """

    def __init__(self, payload: Activation, rpc: Rpc) -> None:
        self._activation = payload
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(rpc)
        self._journal = Journal(payload.records, self._requests)
        self._children = _children.Children()
        self._forks = Forks(self._requests, self._children)
        self._registry: Registry | None = None
        self._entry: StrEnum | None = None
        self._approved: Function | None = None
        self._ended = False

    # What the checkpoint says, frozen in the payload (HLP-038, HLP-040). Reading is always allowed, and what is read is
    # a copy (HLP-039).

    @property
    def workflow_id(self) -> str:
        return self._activation.workflow_id

    @property
    def activation_id(self) -> str:
        return self._activation.activation_id

    @property
    def revision(self) -> int:
        return self._activation.revision

    @property
    def continuation(self) -> str:
        return self._activation.continuation

    @property
    def entrypoint(self) -> StrEnum | str:
        """The selected member of a registered workflow, else the continuation."""
        return self._activation.continuation if self._entry is None else self._entry

    @property
    def state(self) -> Any:
        return copy(self._activation.state)

    @property
    def inputs(self) -> dict[str, Any]:
        """Outcomes of children by key; never events or timers."""
        return dict(copy(self._activation.inputs))

    @property
    def wake(self) -> dict[str, Any] | None:
        """How the wait ended that this activation resumes from; None for any other (HLP-041, HLP-042)."""
        return None if self._activation.wake is None else dict(copy(self._activation.wake))

    @property
    def approval(self) -> Approval | None:
        """The typed view of an approval wake."""
        wake = self.wake
        if wake is None or wake["kind"] != "approval":
            return None
        return Approval(canonical(wake["approval"], "approval", depth=DATA_DEPTH + 3))

    @property
    def parent_workflow_id(self) -> str | None:
        return self._activation.parent_workflow_id

    @property
    def root_workflow_id(self) -> str:
        return self._activation.root_workflow_id

    # Local work.

    def local(self, key: str, fn: Function, **kwargs: Any) -> LocalResult:
        """Run `fn(**kwargs)` once per activation and record its output under `key`; starts without being awaited.

        The name of `fn` and its arguments are the binding of the key (HLP-048, HLP-051).
        """
        self._operate("local")
        name = callable_name(fn)
        given = canonical(kwargs, f"local {key!r}: input")
        return self._journal.step(_operations.step_key(key), fn, name, given, given)

    async def gather(self, *operations: Awaitable[Any]) -> list[Any]:
        """Wait for all; the results in order, or the first failure in order (HLP-064)."""
        self._operate("gather")
        if len(operations) > LOCAL_RECORDS or not all(map(inspect.isawaitable, operations)):
            raise WorkflowError(f"gather: takes at most {LOCAL_RECORDS} awaitables")
        outcomes = await asyncio.gather(*operations, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return list(outcomes)

    def operation(
        self, key: str, fn: Function, *, kind: OperationKind, version: str, arguments: dict[str, Any]
    ) -> LocalResult:
        """A local step that also records what kind and version of model or tool it used (HLP-065 … HLP-067)."""
        self._operate("operation")
        name, given, effective = _operations.bind(fn, kind=kind, version=version, arguments=arguments)
        return self._journal.step(_operations.step_key(key), fn, name, given, effective)

    def approved_local(self, fn: Function, *, version: str) -> LocalResult:
        """Run the approved action of this activation's wake with exactly the reviewed arguments (HLP-086 … HLP-089)."""
        self._operate("approved_local")
        if self._approved is not None and self._approved is not fn:
            raise WorkflowError("approved_local: already used with another function")
        key, arguments = _approved.bind(self.approval, fn, version=version)
        result = self._journal.step(key, fn, callable_name(fn), arguments, arguments)
        self._approved = fn
        return result

    # Children.

    def task(
        self,
        key: str,
        *,
        program: str,
        version: str,
        queue: str,
        data: Any,
        retry_policy: RetryPolicy | None = None,
        attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS,
    ) -> TaskRef:
        """Stage a child task for the next checkpoint; times in milliseconds, default policy 3 attempts, 5000 ms.

        Nothing happens unless a decision with it is accepted (HLP-072); an equal command is staged once (HLP-075).
        """
        self._operate("task")
        self._stage("task", key, program, version, queue, data, retry_policy, attempt_timeout_ms)
        return TaskRef(key, self)

    def workflow(
        self,
        key: str,
        *,
        program: str,
        version: str,
        queue: str,
        data: Any,
        retry_policy: RetryPolicy | None = None,
        attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS,
    ) -> WorkflowRef:
        """Stage a child workflow for the next checkpoint; arguments as for `task`."""
        self._operate("workflow")
        self._stage("workflow", key, program, version, queue, data, retry_policy, attempt_timeout_ms)
        return WorkflowRef(key, self)

    def get_result(self, ref: TaskRef | str) -> Any:
        """A copy of the output of a succeeded child. Raises WorkflowError for any other outcome."""
        self._operate("get_result")
        kind = None if not isinstance(ref, TaskRef) else "workflow" if isinstance(ref, WorkflowRef) else "task"
        return _children.result_of(self.inputs, self._child_key(ref, "get_result"), kind)

    # Branches of the same package.

    def branch(
        self,
        key: str,
        *,
        entrypoint: Target,
        queue: str,
        data: Any,
        retry_policy: RetryPolicy | None = None,
        attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS,
    ) -> BranchSpec:
        """Describe a branch for `fork`; schedules nothing (HLP-104)."""
        self._operate("branch")
        branch = {
            "key": key,
            "entrypoint": self._target(entrypoint, "branch: entrypoint"),
            "queue": queue,
            "data": data,
            "retry_policy": _children.default_retry_policy() if retry_policy is None else retry_policy,
            "attempt_timeout_ms": attempt_timeout_ms,
        }
        return BranchSpec(_children.encode_branch(branch, f"branch {key!r}"), self)

    async def fork(self, key: str, *, branches: Sequence[BranchSpec]) -> ForkRef:
        """Register the branches durably; they may run before this activation ends."""
        self._operate("fork")
        text(key, "fork: key")
        if type(branches) not in (list, tuple) or not 1 <= len(branches) <= BRANCHES:
            raise WorkflowError(f"fork {key!r}: not a list of 1 to {BRANCHES} branches")
        if not all(type(branch) is BranchSpec and branch._context is self for branch in branches):
            raise WorkflowError(f"fork {key!r}: takes branches of this activation")
        items = [copy(branch._encoded) for branch in branches]
        for item in items:
            if not self._knows_target(item["entrypoint"]):
                raise WorkflowError(f"fork {key!r}: {item['entrypoint']!r} is not an entry of this workflow")
        return await self._forks.register(key, items, self)

    def join(self, fork: ForkRef, *, resume: Target, state: Any) -> Decision:
        """Suspend until every branch of a fork of this activation is terminal."""
        self._operate("join")
        if not self._forks.is_registered(fork):
            raise WorkflowError("join: not a fork of this activation")
        return self._checkpoint("suspend", resume, state, until=list(fork.branch_keys))

    # Decisions: plain dicts that take effect only when the handler returns one (HLP-117).

    def suspend(self, *, continuation: Target, state: Any, until: Sequence[TaskRef | str] = ()) -> Decision:
        """Resume at `continuation` when every listed child is terminal, whatever its outcome (HLP-119)."""
        self._operate("suspend")
        if type(until) not in (list, tuple):
            raise WorkflowError("suspend: until is not a list or tuple")
        keys = [self._child_key(item, "suspend: until") for item in until]
        return self._checkpoint("suspend", continuation, state, until=keys)

    def continue_(self, *, continuation: Target, state: Any) -> Decision:
        """Save and go on at `continuation` as soon as any child outcome, or nothing, is to be delivered."""
        self._operate("continue_")
        return self._checkpoint("continue", continuation, state)

    def wait_event(self, key: str, *, continuation: Target, state: Any, timeout_ms: int | None = None) -> Decision:
        """Resume with the event sent to `key`, or with a timeout wake; None waits without a deadline (HLP-121)."""
        self._operate("wait_event")
        return self._checkpoint(
            "wait", continuation, state, wait={"kind": "event", "key": key, "timeout_ms": timeout_ms}
        )

    def sleep(self, key: str, delay_ms: int, *, continuation: Target, state: Any) -> Decision:
        """Resume with a timer wake, `delay_ms` after the decision was accepted (HLP-121)."""
        self._operate("sleep")
        return self._checkpoint("wait", continuation, state, wait={"kind": "timer", "key": key, "delay_ms": delay_ms})

    def request_approval(
        self,
        key: str,
        *,
        action: ApprovalAction | dict[str, Any],
        state: Any,
        timeout_ms: int,
        continuation: Target | None = None,
        resume: Target | None = None,
        proposed_arguments: dict[str, Any] | None = None,
    ) -> Decision:
        """Resume when a reviewer decided on `action`, or at the deadline; give `continuation` or `resume` (HLP-085)."""
        self._operate("request_approval")
        if (continuation is None) == (resume is None):
            raise WorkflowError("request_approval: needs either continuation or resume")
        wait: dict[str, Any] = {"kind": "approval", "key": key, "timeout_ms": timeout_ms}
        wait["action"] = action.to_dict() if isinstance(action, ApprovalAction) else action
        if proposed_arguments is not None:
            wait["proposed_arguments"] = proposed_arguments
        target = continuation if resume is None else resume
        return self._checkpoint("wait", target, state, wait=wait)

    wait_approval = request_approval

    def complete(self, output: Any) -> Decision:
        """End the workflow successfully; refused while children are staged (HLP-122)."""
        self._operate("complete")
        if self._children.staged:
            raise WorkflowError("complete: children are staged")
        return self._decision("complete", output=output)

    def fail(self, kind: str, message: str) -> Decision:
        """End the workflow with a failure that is not retried; staged children are dropped (HLP-123)."""
        self._operate("fail")
        return self._decision("fail", error={"kind": kind, "message": message})

    # The helper's side.

    def _operate(self, name: str) -> None:
        """Refuse what may not happen here and now (HLP-035 … HLP-037, HLP-063)."""
        if self._ended:
            raise WorkflowError(f"{name}: the activation has ended")
        if asyncio._get_running_loop() is not self._loop:
            raise WorkflowError(f"{name}: not in the event loop of the activation")
        if inside_step.get():
            raise WorkflowError(f"{name}: not possible inside a local function")
        self._requests.refuse_if_fatal()

    def _target(self, target: object, what: str) -> str:
        """A string of a workflow without registered entries (HLP-100), else the value of a member."""
        return text(target, what) if self._registry is None else self._registry.target(target, what)

    def _knows_target(self, value: str) -> bool:
        return self._registry is None or self._registry.knows(value)

    def _enter(self, registry: Registry) -> StrEnum:
        """Choose the entry of a registered workflow; one registry per activation (HLP-101)."""
        if self._registry is not None and self._registry is not registry:
            raise WorkflowError("another registered workflow was entered in this activation")
        self._registry = registry
        self._entry = registry.select(self.continuation)
        return self._entry

    def _child_key(self, ref: TaskRef | str, what: str) -> str:
        if isinstance(ref, TaskRef):
            if ref._context is not self:
                raise WorkflowError(f"{what}: a reference of another activation")
            return ref.key
        return text(ref, what)

    def _stage(
        self,
        kind: str,
        key: str,
        program: str,
        version: str,
        queue: str,
        data: Any,
        retry_policy: RetryPolicy | None,
        attempt_timeout_ms: int,
    ) -> None:
        command = {
            "key": key,
            "program": {"id": program, "version": version},
            "queue": queue,
            "data": data,
            "retry_policy": _children.default_retry_policy() if retry_policy is None else retry_policy,
            "attempt_timeout_ms": attempt_timeout_ms,
        }
        if kind == "workflow":
            command["kind"] = kind
        self._children.stage(command, f"{kind} {key!r}")

    def _checkpoint(self, kind: str, continuation: object, state: Any, **members: Any) -> Decision:
        target = self._target(continuation, f"{kind}: target")
        commands = self._children.commands()
        return self._decision(kind, continuation=target, state=state, commands=commands, **members)

    def _decision(self, kind: str, **members: Any) -> Decision:
        """HLP-145."""
        common = {"v": 1, "activation_id": self.activation_id, "revision": self.revision, "kind": kind}
        return dict(copy(_decisions.encode({**common, **members})))

    def _observe(self, meter: Meter) -> None:
        """Measure the steps from now on; what came before was preparation."""
        meter.restart()
        self._journal.meter = meter

    async def _run(self, handler: Callable[..., Any], event: dict[str, Any]) -> bytes:
        """Call the handler with the event as it came (HLP-034), finish what it started, return the canonical decision.

        Whatever stands around the steps runs again with every attempt (HLP-070).
        """
        _current.set(self)
        try:
            value = handler(event)
            if inspect.isawaitable(value):
                value = await value
            await _draining.drain(self._requests, self._journal, self._forks)
            return self._checked(value)
        except BaseException:  # what ends the process ends the steps as well
            await _draining.abandon(self._journal, self._forks)
            raise
        finally:
            self._ended = True

    def _checked(self, decision: object) -> bytes:
        check = _decisions.ReturnCheck(self.activation_id, self.revision, self._children.encoded(), self._knows_target)
        return check.encode(decision)
