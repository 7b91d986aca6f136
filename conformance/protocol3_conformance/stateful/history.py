"""One generated history on its way: calls to the target, each compared with what the model expects of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.lab import FIRST_PAUSE, LONGEST_PAUSE, Lab
from protocol3_conformance.model.expected import Answer
from protocol3_conformance.stateful import replay
from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.faults import BrokenRule, Violation
from protocol3_spec.loader import errors

Call = dict[str, Any]
"""As `replay` describes it."""


class Difference(BrokenRule):
    """The target answers otherwise than the model."""

    def __init__(self, place: str, wrong: list[replay.Wrong]) -> None:
        """The rules are those of the first place that names any: what stands behind it may follow from it."""
        self.rules = next((tuple(one.rules) for one in wrong if one.rules), ())
        super().__init__("\n".join([f"{place}: the answer is not that of the model", *map(str, wrong)]))


def ref(number: int, *names: str) -> Any:
    """A value of an earlier answer."""
    return {"$ref": [number, *names]}


@dataclass(slots=True, kw_only=True)
class History:
    """`run` makes the names of this example its own, `patience` is for background steps, in seconds."""

    lab: Lab
    run: str
    patience: float
    calls: list[Call] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """The number that the next call will have."""
        return len(self.calls) + 1

    def value(self, template: Any) -> Any:
        """What a template stands for by now."""
        return replay.fill(template, self.run, self.answers)

    async def post(self, path: str, body: Any, answer: Answer, *, status: int | None = None) -> Any:
        """Send a command, compare; the value that came. `status` is needed where a code has several."""
        return await self._call("POST", path, {}, body, answer, status=status)

    async def get(self, path: str, query: Any, answer: Answer, *, until: bool = False) -> Any:
        """Read, compare. `until`: again and again, up to the patience with background steps."""
        return await self._call("GET", path, query, None, answer, until=until)

    async def _call(
        self,
        method: str,
        path: str,
        query: Any,
        body: Any,
        answer: Answer,
        *,
        status: int | None = None,
        until: bool = False,
    ) -> Any:
        ordinary = 200 if answer.code is None else errors()[answer.code].statuses[0]
        call: Call = {"number": self.next, "method": method, "path": path, "query": query, "body": body}
        call |= {"status": status or ordinary, "expect": answer.value, "rules": [*answer.rules]} | (
            {"until": True} if until else {}
        )
        self.calls.append(call)
        deadline = time.monotonic() + (self.patience if until else 0)
        pause = FIRST_PAUSE
        while wrong := await self.attempt(call):
            if time.monotonic() >= deadline:
                raise Difference(f"call {call['number']}, {method} {path}", wrong)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return self.answers[call["number"]]

    async def attempt(self, call: Call) -> list[replay.Wrong]:
        """What is wrong with the answer. Raises Violation where the model sees nothing, but the wire layer does."""
        violation = None
        try:
            exchange = await self._send(call)
        except Violation as found:
            violation, exchange = found, self.lab.transcript.exchanges[-1]
        assert exchange.reply is not None
        self.answers[call["number"]] = exchange.value
        wrong = replay.judge(call, exchange.reply.status, exchange.value, self.run, self.answers)
        if violation and (not wrong or exchange.value is None):
            raise violation
        return wrong

    async def _send(self, call: Call) -> Exchange:
        if call["method"] == "GET":
            return await self.lab.peer.get(call["path"], self.value(call["query"]))
        return await self.lab.peer.post(call["path"], self.value(call["body"]))
