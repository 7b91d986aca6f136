"""Runs cases through all runtimes at once and judges what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, TextIO

from parity.case import Case
from parity.child import Conversation
from parity.compare import Difference, differences
from parity.explanations import Explanation, Explanations
from parity.runtime import Runtime


@dataclass(frozen=True)
class Result:
    """One case: the conversations by runtime, and per release what differs from ours. `reasons` explain all of it."""

    case: Case
    heard: dict[str, Conversation]
    found: dict[str, list[Difference]] = field(default_factory=dict)
    reasons: tuple[Explanation, ...] | None = ()
    together: bool = False  # it differs only behind other cases in a shared process

    @property
    def equal(self) -> bool:
        return not any(self.found.values())

    @property
    def accepted(self) -> bool:
        return self.reasons is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case.as_json(),
            "heard": {name: asdict(conversation) for name, conversation in self.heard.items()},
            "differences": {name: [asdict(item) for item in items] for name, items in self.found.items()},
            "explained": None if self.reasons is None else [entry.id for entry in self.reasons],
        }


class Bench:
    """The first runtime is ours. `results` collects every case that `run` and `examine` were given."""

    def __init__(self, runtimes: list[Runtime], table: Explanations, record: TextIO | None) -> None:
        self.results: dict[str, Result] = {}
        self._runtimes = runtimes
        self._table = table
        self._record = record
        self._threads = ThreadPoolExecutor(len(runtimes))

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()

    def run(self, cases: Iterable[Case]) -> None:
        """Every runtime goes through the cases at its own pace."""
        listed = list(cases)

        def converse(runtime: Runtime) -> list[Conversation]:
            return [runtime.converse(case) for case in listed]

        every: Iterator[list[Conversation]] = self._threads.map(converse, self._runtimes)
        for case, *heard in zip(listed, *every, strict=True):
            self._judge(case, heard)

    def examine(self, case: Case, *, alone: bool = False) -> Result:
        """One case, in all runtimes at once."""
        return self._judge(case, self._converse(case, alone=alone))

    def _converse(self, case: Case, *, alone: bool) -> list[Conversation]:
        return list(self._threads.map(lambda runtime: runtime.converse(case, alone=alone), self._runtimes))

    def _judge(self, case: Case, heard: list[Conversation]) -> Result:
        result = self._compared(case, heard)
        if not result.accepted and case.shared:
            again = self._compared(case, self._converse(case, alone=True))
            result = Result(case, result.heard, result.found, None, together=True) if again.accepted else again
        self.results[case.name] = result
        if self._record is not None:
            self._record.write(json.dumps(result.as_json(), ensure_ascii=True) + "\n")
            self._record.flush()
        return result

    def _compared(self, case: Case, heard: list[Conversation]) -> Result:
        named = dict(zip((runtime.name for runtime in self._runtimes), heard, strict=True))
        ours, *others = heard
        found = {
            runtime.name: differences(ours, theirs, unordered=case.unordered)
            for runtime, theirs in zip(self._runtimes[1:], others, strict=True)
        }
        reasons = self._table.of(case.name, [item for items in found.values() for item in items])
        return Result(case, named, found, reasons)
