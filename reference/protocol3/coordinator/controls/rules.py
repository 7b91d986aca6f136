"""What a fault rule says: where it strikes and what it does (profile faults of spec/35-testing-profiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args

from protocol3.contract.fields import Fields, integer
from protocol3.contract.limits import FAULT_DRIP_BYTES, FAULT_PAUSE_MS, FAULT_STATUS_MAX, FAULT_STATUS_MIN, U32_MAX
from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import identifier, string
from protocol3.contract.vocabulary import word_reader
from protocol3.coordinator.http.routes import ROUTES

Where: TypeAlias = Literal["received", "locked", "written", "committed"]
StepName: TypeAlias = Literal[
    "task.claim",
    "decision.apply",
    "completion.deliver",
    "completion.expire",
    "wait.fire",
    "drain.pass",
    "attempt.expire",
    "program.resolve",
]
ActKind: TypeAlias = Literal["hold", "fail", "drop", "status", "delay", "drip", "crash"]

#: What can be done at a place: to an exchange, to a background step.
EXCHANGE_ACTS: Final[dict[Where, tuple[ActKind, ...]]] = {
    "received": ("hold", "fail", "drop", "status", "delay", "crash"),
    "locked": ("hold", "fail", "drop", "status", "delay", "crash"),
    "written": ("hold", "fail", "drop", "status", "delay", "crash"),
    "committed": ("hold", "fail", "drop", "status", "delay", "drip", "crash"),
}
STEP_ACTS: Final[dict[Where, tuple[ActKind, ...]]] = {
    "received": ("hold", "fail", "delay", "crash"),
    "locked": ("hold", "fail", "delay", "crash"),
    "written": ("hold", "fail", "delay", "crash"),
    "committed": ("hold", "delay", "crash"),
}

_where: Final = word_reader(get_args(Where))
_step: Final = word_reader(get_args(StepName))
_act: Final = word_reader(get_args(ActKind))
_ROUTES: Final = {(route.method, route.path) for route in ROUTES}
#: A read; and polls, several of which may be served by one claim: that is a step of its own.
_UNGUARDED: Final = frozenset({"/v1/workflows/activations/context", "/v1/acquisitions"})
#: After these a client reads no body, so one would be taken for the beginning of the next reply.
_BODILESS: Final = frozenset({204, 205, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Every exchange of one route of the contract."""

    method: str
    path: str

    @property
    def places(self) -> tuple[Where, ...]:
        """Those inside a transition only where there is one of this exchange alone."""
        unguarded = self.method == "GET" or self.path in _UNGUARDED
        return ("received", "committed") if unguarded else get_args(Where)

    def to_json(self) -> dict[str, JsonValue]:
        return {"method": self.method, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Every background step of one name."""

    name: StepName

    @property
    def places(self) -> tuple[Where, ...]:
        """The program store knows no transaction; a claim locks what nobody else holds, or nothing."""
        match self.name:
            case "program.resolve":
                return ("received",)
            case "task.claim":
                return ("received", "written", "committed")
            case _:
                return get_args(Where)

    def to_json(self) -> dict[str, JsonValue]:
        return {"step": self.name}


Match: TypeAlias = Exchange | Step


def _match(value: JsonValue, at: str) -> Match:
    with Fields(value, at) as f:
        if "step" in f:
            return Step(name=f.required("step", _step))
        method, path = f.required("method", string), f.required("path", string)
    if (method, path) not in _ROUTES:
        raise invalid(at, "names no route of the contract that is served here")
    return Exchange(method=method, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is done. `ms`: a delay, or the pause of a drip; `size`: its bytes; `status` and `body`: of a reply."""

    kind: ActKind
    ms: int = 0
    size: int = 0
    status: int = 0
    body: JsonValue = None
    bare: bool = False

    @classmethod
    def from_json(cls, value: JsonValue, at: str) -> Self:
        with Fields(value, at) as f:
            kind = f.required("kind", _act)
            match kind:
                case "delay":
                    return cls(kind=kind, ms=f.required("ms", integer, 0, FAULT_PAUSE_MS))
                case "drip":
                    size = f.required("bytes", integer, 1, FAULT_DRIP_BYTES)
                    return cls(kind=kind, size=size, ms=f.required("every_ms", integer, 0, FAULT_PAUSE_MS))
                case "status":
                    status = f.required("status", integer, FAULT_STATUS_MIN, FAULT_STATUS_MAX)
                    bare = "body" not in f
                    if status in _BODILESS and not bare:
                        raise invalid(f"{at}.body", f"a reply {status} has none")
                    return cls(kind=kind, status=status, bare=bare, body=None if bare else f.raw("body"))
                case _:
                    return cls(kind=kind)

    def to_json(self) -> dict[str, JsonValue]:
        shown: dict[str, JsonValue] = {"kind": self.kind}
        match self.kind:
            case "delay":
                shown |= {"ms": self.ms}
            case "drip":
                shown |= {"bytes": self.size, "every_ms": self.ms}
            case "status":
                shown |= {"status": self.status} if self.bare else {"status": self.status, "body": self.body}
            case _:
                pass
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFault:
    """TST-031, TST-032: a rule for one scope: after `skip` occasions it strikes `times` (None: without end)."""

    scope: Scope
    match: Match
    skip: int
    times: int | None
    where: Where
    act: Act

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            rule = cls(
                scope=f.required("scope", Scope.from_json),
                match=f.required("match", _match),
                skip=f.optional("skip", 0, integer, 0, U32_MAX),
                times=f.present("times", integer, 1, U32_MAX) if "times" in f else 1,
                where=f.required("where", _where),
                act=f.required("act", Act.from_json),
            )
        acts = EXCHANGE_ACTS if isinstance(rule.match, Exchange) else STEP_ACTS
        if rule.where not in rule.match.places:
            raise invalid(f"{at}.where", f"must be one of {', '.join(rule.match.places)} for this match")
        if rule.act.kind not in acts[rule.where]:
            raise invalid(f"{at}.act.kind", f"must be one of {', '.join(acts[rule.where])} at this place")
        return rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Names one rule, or one thing that is held, or (None) all of the scope."""

    scope: Scope
    id: str | None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(scope=f.required("scope", Scope.from_json), id=f.optional("id", None, identifier))
