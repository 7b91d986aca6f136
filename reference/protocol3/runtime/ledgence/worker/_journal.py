"""Local steps of one activation (HLP-048 … HLP-062, HLP-068)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any

from ._activation import Record
from ._calls import Function
from ._checks import text
from ._errors import WorkflowError
from ._exact import canonical, copy
from ._limits import (
    CALLABLE_BYTES,
    LOCAL_LEDGER_BYTES,
    LOCAL_RECORD_BYTES,
    LOCAL_RECORDS,
)
from ._observations import Meter, StepMeter
from ._requests import Requests

# Set in a step's own task, and so in everything it starts, threads included (HLP-063).
inside_step: ContextVar[bool] = ContextVar("ledgence.worker.inside_step", default=False)


class LocalResult:
    """The awaitable of a step. Any number of observers may await it (HLP-053); cancelling one leaves it (HLP-060)."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step = step

    def __await__(self) -> Generator[Any, None, Any]:
        return self._step.observe().__await__()


class Step:
    """One key: its binding, the task that runs it, and whether an observer has seen its failure."""

    __slots__ = ("binding", "observed", "outcome")

    def __init__(self, binding: tuple[str, bytes], outcome: asyncio.Future[bytes]) -> None:
        self.binding = binding
        self.outcome = outcome
        self.observed = False

    async def observe(self) -> Any:
        try:
            return copy(await asyncio.shield(self.outcome))
        except BaseException:
            self.observed = self.observed or self.outcome.done()
            raise


class Journal:
    """Steps by key: those of earlier attempts are replayed, new ones run once and are committed one at a time."""

    __slots__ = ("_bytes", "_closing", "_recorded", "_requests", "_steps", "cancelled", "meter")

    def __init__(self, recorded: dict[str, Record], requests: Requests) -> None:
        self._recorded = recorded
        self._requests = requests
        self.meter: Meter | None = None
        self._steps: dict[str, Step] = {}
        # The journal is counted as a JSON array: a comma or bracket with every record, and one more (LIM-012).
        self._bytes = 1 + sum(record.size + 1 for record in recorded.values())
        self._closing = False
        self.cancelled = False  # a step's function raised a cancellation (HLP-062)

    def step(self, key: str, fn: Function, name: str, given: bytes, arguments: bytes) -> LocalResult:
        """Find or start the step: one execution per key and binding (HLP-054 … HLP-056), operations too (HLP-068).

        `name` and `given` are the recorded callable and input, `arguments` is what `fn` receives; both canonical.
        """
        binding = text(name, "fn: its name", CALLABLE_BYTES), given
        known = self._steps.get(key) or self._recorded.get(key)
        if known is not None and known.binding != binding:
            raise WorkflowError(f"local {key!r}: already used with another function or input")
        if key not in self._steps:
            outcome = self._replay(key, name) if key in self._recorded else self._start(key, fn, binding, arguments)
            self._steps[key] = Step(binding, asyncio.ensure_future(outcome))
        return LocalResult(self._steps[key])

    def pending(self) -> list[asyncio.Future[Any]]:
        return [step.outcome for step in self._steps.values() if not step.outcome.done()]

    def unobserved_failure(self) -> BaseException | None:
        """The first failure that no observer has seen, once nothing is pending (HLP-114)."""
        for step in self._steps.values():
            if not step.observed and not step.outcome.cancelled() and step.outcome.exception() is not None:
                return step.outcome.exception()
        return None

    def close(self) -> None:
        """Cancel what runs; nothing that has not been sent is sent any more (HLP-115)."""
        self._closing = True
        for outcome in self.pending():
            outcome.cancel()

    async def _replay(self, key: str, name: str) -> bytes:
        self._observed(StepMeter(key, name, "replayed"))
        return self._recorded[key].output

    def _start(
        self, key: str, fn: Function, binding: tuple[str, bytes], arguments: bytes
    ) -> Coroutine[Any, Any, bytes]:
        """The function runs at the next turn of the loop, once per key (HLP-048, HLP-057, RUN-095)."""
        if max(len(binding[1]), len(arguments)) > LOCAL_RECORD_BYTES:
            raise WorkflowError(f"local {key!r}: input is longer than {LOCAL_RECORD_BYTES} bytes")
        if len(self._recorded.keys() | self._steps.keys()) >= LOCAL_RECORDS:
            raise WorkflowError(f"local {key!r}: an activation has at most {LOCAL_RECORDS} steps")
        return self._run(key, fn, binding, arguments)

    def _observed(self, meter: StepMeter) -> StepMeter:
        """A step that begins; one that is cancelled before its first turn is not told."""
        if self.meter is not None:
            self.meter.steps.append(meter)
        return meter

    async def _run(self, key: str, fn: Function, binding: tuple[str, bytes], arguments: bytes) -> bytes:
        meter = self._observed(StepMeter(key, binding[0]))
        try:
            output = await _call(key, fn, arguments)
            record = _record(key, binding, output)
        except asyncio.CancelledError:
            meter.stop("cancelled")
            self.cancelled = self.cancelled or not self._closing
            raise
        except BaseException:  # every observer sees it, and no record is left (HLP-061)
            meter.stop("failed")
            raise
        meter.stop("returned")
        await self._commit(key, record)
        return output

    async def _commit(self, key: str, record: bytes) -> None:
        """The whole journal's bound is judged before anything is sent (HLP-058)."""
        if self._bytes + len(record) + 1 > LOCAL_LEDGER_BYTES:
            raise WorkflowError(f"local {key!r}: the journal is longer than {LOCAL_LEDGER_BYTES} bytes")
        if self._closing:
            raise WorkflowError(f"local {key!r}: the activation has ended")
        self._bytes += len(record) + 1
        await self._requests.send("local_step.commit", record, {"committed": True})


def _record(key: str, binding: tuple[str, bytes], output: bytes) -> bytes:
    """HLP-058: a value that no record can hold is no valid one (RUN-091)."""
    name, given = binding
    members = canonical(name, "callable"), given, canonical(key, "key"), output
    record = b'{"callable":%b,"input":%b,"key":%b,"output":%b}' % members
    if len(record) > LOCAL_RECORD_BYTES:
        raise WorkflowError(f"local {key!r}: its record is longer than {LOCAL_RECORD_BYTES} bytes")
    return record


async def _call(key: str, fn: Function, arguments: bytes) -> bytes:
    """HLP-052."""
    inside_step.set(True)
    value = fn(**copy(arguments))
    if inspect.isawaitable(value):
        value = await value
    return canonical(value, f"local {key!r}: output")
