"""What can be wrong, and whose fault it is.

`Violation` blames the target: the reply breaks a rule. Anything else that is not an assertion is the suite's own error.
"""

from __future__ import annotations


class BrokenRule(AssertionError):
    """The target broke `rules`, requirement IDs, and no other was judged; empty where it is not known which."""

    rules: tuple[str, ...] = ()


class Violation(BrokenRule):
    """The target broke a rule that the wire layer checks on every exchange.

    `rules` are the requirement IDs, `at` the place in the reply, `why` what came and what was expected.
    """

    def __init__(self, at: str, why: str, *rules: str) -> None:
        self.at, self.why, self.rules = at, why, rules
        cited = f" [{', '.join(rules)}]" if rules else ""
        super().__init__(f"{at}: {why}{cited}")


class TransportFault(AssertionError):
    """No complete HTTP reply came: connection refused or closed, bytes that are not HTTP, or nothing in time."""


class NotDetermined(Exception):
    """The target gave no occasion to judge the rule; never a pass, never a failure."""
