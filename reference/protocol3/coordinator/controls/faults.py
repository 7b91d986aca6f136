"""The rules of this process, what they strike, and what is held (profile faults of spec/35-testing-profiles.md).

An occasion is one exchange or one run of a background step. It is a context variable, so whatever it calls reaches its
places without knowing. At each place it counts once for every rule that matches, in the order in which they were added.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias, assert_never

from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.controls.replies import Dripped, Dropped, replaced
from protocol3.coordinator.controls.rules import AddFault, Match, Pick, Where
from protocol3.coordinator.http.reply import Reply

Alteration: TypeAlias = Callable[[Reply], Reply]


class Injected(Exception):
    """A rule ends this occasion here; to a background step a transient failure."""


@dataclass(slots=True, kw_only=True)
class Rule:
    """A rule with its counts. `reached`: matching occasions so far, the skipped ones included."""

    id: str
    says: AddFault
    reached: int = 0
    hits: int = 0

    def strikes(self) -> bool:
        """TST-023: count an occasion that reached the rule's place; whether it is struck."""
        self.reached += 1
        if self.reached <= self.says.skip or self.hits == self.says.times:
            return False
        self.hits += 1
        return True

    def to_json(self) -> dict[str, JsonValue]:
        says = self.says
        return {
            "id": self.id,
            "match": says.match.to_json(),
            "skip": says.skip,
            "times": says.times,
            "where": says.where,
            "act": says.act.to_json(),
            "hits": self.hits,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """Something that a rule holds until it is released. `subject` is the task or workflow concerned, if it has one."""

    id: str
    rule: Rule
    subject: str | None
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def to_json(self) -> dict[str, JsonValue]:
        says = self.rule.says
        shown: dict[str, JsonValue] = {"id": self.id, "fault": self.rule.id, "match": says.match.to_json()}
        return shown | {"where": says.where, "subject": self.subject}


@dataclass(slots=True, kw_only=True, eq=False)
class Occasion:
    """One exchange or one run of a step, and the places it has come to."""

    scope: Scope
    match: Match
    subject: str | None
    reached: set[Where] = field(default_factory=set)


#: What is under way in the present task, and what becomes of the reply that it leads to.
_occasion: Final[ContextVar[Occasion | None]] = ContextVar("occasion", default=None)
_alterations: Final[ContextVar[list[Alteration] | None]] = ContextVar("alterations", default=None)


def present_scope() -> Scope | None:
    """The scope of what is under way."""
    occasion = _occasion.get()
    return None if occasion is None else occasion.scope


class Faults:
    """TST-020: everything about faults that this process knows."""

    def __init__(self) -> None:
        self._rules: dict[Scope, dict[str, Rule]] = {}
        self._held: dict[Scope, dict[str, Held]] = {}
        self._numbers = count(1)

    def add(self, says: AddFault) -> dict[str, JsonValue]:
        """TST-031: the new rule, as `shown` shows it."""
        rule = Rule(id=f"fault_{next(self._numbers)}", says=says)
        self._rules.setdefault(says.scope, {})[rule.id] = rule
        return rule.to_json()

    def shown(self, scope: Scope) -> dict[str, JsonValue]:
        """TST-033: the rules of a scope and what they hold now."""
        rules, held = self._rules.get(scope, {}), self._held.get(scope, {})
        return {
            "faults": [rule.to_json() for rule in rules.values()],
            "held": [one.to_json() for one in held.values()],
        }

    def release(self, pick: Pick) -> dict[str, JsonValue]:
        """TST-034, TST-035: let go of what is held: one, all of a rule, all of the scope. Raises not_found for an
        unknown id.
        """
        held = list(self._held.get(pick.scope, {}).values())
        rules = self._rules.get(pick.scope, {})
        chosen = [one for one in held if pick.id in (None, one.id, one.rule.id)]
        if pick.id is not None and not chosen and pick.id not in rules:
            raise Refusal("not_found")
        for one in chosen:
            one.released.set()
        return {"released": len(chosen)}

    def clear(self, pick: Pick) -> dict[str, JsonValue]:
        """TST-035, TST-036: forget one rule, or all of the scope, and let go of what they hold. Raises not_found for
        an unknown id.
        """
        rules = self._rules.get(pick.scope, {})
        chosen = list(rules) if pick.id is None else [pick.id]
        if not rules.keys() >= set(chosen):
            raise Refusal("not_found")
        released = sum(self._let_go(pick.scope, rules.pop(id)) for id in chosen)
        return {"cleared": len(chosen), "released": released}

    def end(self) -> None:
        """TST-027: forget every rule and let go of everything: a shutdown waits for what is under way."""
        for scope in list(self._rules):
            self.clear(Pick(scope=scope, id=None))

    def concern(self, scope: Scope, match: Match) -> bool:
        """Whether any rule of the scope is about this."""
        return any(rule.says.match == match for rule in self._rules.get(scope, {}).values())

    @contextmanager
    def occasion(self, scope: Scope, match: Match, subject: str | None) -> Iterator[None]:
        """Everything inside belongs to this occasion."""
        token = _occasion.set(Occasion(scope=scope, match=match, subject=subject))
        try:
            yield
        finally:
            _occasion.reset(token)

    @contextmanager
    def reply(self) -> Iterator[list[Alteration]]:
        """What is made inside is a reply; rules add to the list what shall become of it."""
        alterations: list[Alteration] = []
        token = _alterations.set(alterations)
        try:
            yield alterations
        finally:
            _alterations.reset(token)

    def expected(self, where: Where) -> bool:
        """Whether a rule waits for the present occasion at this place."""
        return bool(self._waiting(where))

    async def reach(self, where: Where) -> None:
        """TST-023, TST-024: the present occasion has come to this place. Raises Injected when a rule ends it."""
        rules, occasion = self._waiting(where), _occasion.get()
        if occasion is None or not rules:
            return
        occasion.reached.add(where)
        for rule in rules:
            if rule.strikes():
                await self._strike(rule, occasion)

    def _waiting(self, where: Where) -> list[Rule]:
        occasion = _occasion.get()
        if occasion is None or where in occasion.reached:
            return []
        rules = self._rules.get(occasion.scope, {}).values()
        return [rule for rule in rules if rule.says.where == where and rule.says.match == occasion.match]

    async def _strike(self, rule: Rule, occasion: Occasion) -> None:
        act = rule.says.act
        match act.kind:
            case "hold":
                await self._hold(rule, occasion)
            case "fail":
                raise Injected
            case "drop":
                _alter(Dropped)
                raise Injected
            case "status":
                _alter(replaced(act.status, act.body, bare=act.bare))
                raise Injected
            case "delay":
                await asyncio.sleep(act.ms / 1000)
            case "drip":
                _alter(lambda reply: Dripped(reply, size=act.size, pause_s=act.ms / 1000))
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case kind:
                assert_never(kind)

    async def _hold(self, rule: Rule, occasion: Occasion) -> None:
        held = Held(id=f"held_{next(self._numbers)}", rule=rule, subject=occasion.subject)
        everything = self._held.setdefault(occasion.scope, {})
        everything[held.id] = held
        try:
            await held.released.wait()
        finally:
            del everything[held.id]

    def _let_go(self, scope: Scope, rule: Rule) -> int:
        held = [one for one in self._held.get(scope, {}).values() if one.rule is rule]
        for one in held:
            one.released.set()
        return len(held)


def _alter(alteration: Alteration) -> None:
    alterations = _alterations.get()
    assert alterations is not None, "only an exchange has a reply"
    alterations.append(alteration)
