"""What a machine is: words that each do something to target and model at once, and an end that reads everything.

An operation is a word and three small numbers. What the numbers choose from depends on what there is by then, and a
word without anything to choose from does nothing. So every list of operations can be played, whichever of them are
taken out when a failing list is shrunk; hypothesis' own `RuleBasedStateMachine` would bind later steps to earlier ones
instead, and would hand over between its thread and the loop at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
Operation = tuple[str, int, int, int]
"""The numbers are 0 to 7."""
Operations = tuple[Operation, ...]


class Machine(Protocol):
    """One example in the making."""

    async def do(self, operation: Operation) -> None:
        """Raises Difference, or what the wire layer raises."""

    async def end(self) -> None:
        """Everything that can be read must be as the model says."""


def choose(among: Sequence[T], number: int) -> T | None:
    """Mostly the last one, at times the one or two before it; None where there is none."""
    return among[-1 - number // 3 % len(among)] if among else None
