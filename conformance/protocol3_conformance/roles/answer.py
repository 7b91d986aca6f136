"""The reply to one command, and what a scenario expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.shapes import brief
from protocol3_spec.loader import errors


@dataclass(frozen=True, slots=True)
class Answer:
    """A judged exchange. Its reply has already passed every check of the wire layer."""

    exchange: Exchange

    @property
    def status(self) -> int:
        assert self.exchange.reply is not None
        return self.exchange.reply.status

    @property
    def value(self) -> Any:
        return self.exchange.value

    @property
    def code(self) -> str | None:
        """The error code, or None for a success."""
        return None if self.status == 200 else self.value["code"]

    def accepted(self) -> Any:
        """The reply of a command that must succeed."""
        assert self.status == 200, f"expected success of {self._what()}, came {self.status} {brief(self.value)}"
        return self.value

    def refused(self, code: str, status: int | None = None) -> None:
        """The command must be refused with this code and its status (the ordinary one unless given)."""
        expected = status or errors()[code].statuses[0]
        came = f"{self.status} {brief(self.value)}"
        assert (self.status, self.code) == (expected, code), (
            f"expected {expected} {code} for {self._what()}, came {came}"
        )

    def refused_with(self, *codes: str) -> None:
        """Where the contract leaves open which: the command must be refused with one of these codes."""
        came = f"{self.status} {brief(self.value)}"
        assert self.code in codes, f"expected one of {', '.join(codes)} for {self._what()}, came {came}"

    def _what(self) -> str:
        return f"{self.exchange.method} {self.exchange.path}"
