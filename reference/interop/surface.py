"""The public surface of the installed `ledgence-client`, found by looking at it, and a record of what the tests used.

Every public class, with its public methods, properties and parameters. `install` puts a recording wrapper around each
callable; only calls that come from outside of the package are noted, so `submit` does not stand for `prepare`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import ledgence.client
from ledgence.client import LedgenceError, RequestTimeout, ServiceError, otel
from ledgence.client.completions import Completions
from ledgence.client.tasks import Tasks
from ledgence.client.workflows import Workflows

PACKAGE = "ledgence.client"
SPECIAL = ("__init__", "__aenter__", "__aexit__")
# Dataclasses that an application makes itself; every other one comes out of a call.
MADE_BY_CALLERS = {"CompletionTarget", "RetryPolicy", "Scope", "TraceContext"}
# `submit(**kwargs)` takes what the preparing call of the same class takes.
FORWARDED = {"submit": ("prepare",), "subscribe": ("prepare_subscribe", "prepare")}


def classes() -> dict[str, type]:
    """Exported classes, and those behind the public attributes of a client, which are not exported by name."""
    exported = [getattr(ledgence.client, name) for name in ledgence.client.__all__]
    return {one.__name__: one for one in [*exported, Tasks, Workflows, Completions] if isinstance(one, type)}


ERRORS = {name: one for name, one in classes().items() if issubclass(one, BaseException)}
WORDS = {name: one for name, one in classes().items() if issubclass(one, enum.Enum)}
OBJECTS = {name: one for name, one in classes().items() if name not in ERRORS and name not in WORDS}


class Record:
    """What tests did with the surface so far."""

    def __init__(self) -> None:
        self.used: defaultdict[str, set[str]] = defaultdict(set)
        self.ends: defaultdict[str, set[str]] = defaultdict(set)
        self.seen: set[str] = set()

    def look_at(self, value: Any) -> None:
        """Note the public classes of which a result or an error consists, and the words in it."""
        if isinstance(value, enum.Enum):
            self.seen.add(f"{type(value).__name__}.{value.name}")
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.look_at(item)
        elif isinstance(value, LedgenceError):
            self.seen.add(type(value).__name__)
            for item in vars(value).values():
                self.look_at(item)
        elif type(value).__module__.startswith(PACKAGE):
            self.seen.add(type(value).__name__)
            if dataclasses.is_dataclass(value):
                for field in dataclasses.fields(value):
                    if field.name != "_client":
                        self.look_at(getattr(value, field.name))

    def ended(self, name: str, error: BaseException | None, result: Any = None) -> None:
        self.look_at(result if error is None else error)
        self.ends[name].add("returned" if error is None else kind_of(error))


RECORD = Record()


def kind_of(error: BaseException) -> str:
    """The class of an error, with its code, with what made it uncertain, with whether it had been dispatched."""
    name = type(error).__name__
    if type(error) is ServiceError:
        return f"{name}:{error.code}"
    if isinstance(error, RequestTimeout):
        return f"{name}:{'dispatched' if error.dispatched else 'not dispatched'}"
    cause = getattr(error, "cause", None)
    return f"{name}/{type(cause).__name__}" if cause is not None else name


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public callables and properties that a class defines itself, and how it is made and entered."""
    for name, member in vars(owner).items():
        if name.startswith("_") and name not in SPECIAL:
            continue
        if inspect.isfunction(member) or isinstance(member, property):
            yield name, member


def surface() -> dict[str, set[str]]:
    """Every public call by its name, `Class.member`, with the parameters that a caller can give."""
    found: dict[str, set[str]] = {"otel.enable_context": set()}
    for owner, kind in [*OBJECTS.items(), *WORDS.items()]:
        for name, member in members(kind):
            if name != "__init__" or owner in MADE_BY_CALLERS or not _made_by_the_client(owner, kind):
                found[f"{owner}.{name}"] = set() if isinstance(member, property) else parameters(kind, name, member)
    return found


def _made_by_the_client(owner: str, kind: type) -> bool:
    """A result or a handle: what counts is that it was seen. A frozen command refuses to be made, which is a call."""
    if owner not in ledgence.client.__all__:
        return True
    return dataclasses.is_dataclass(kind) and kind.__dataclass_params__.init


def parameters(owner: type, name: str, function: Callable[..., Any]) -> set[str]:
    words: set[str] = set()
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            target = next(one for one in FORWARDED[name] if hasattr(owner, one))
            words |= parameters(owner, target, getattr(owner, target))
        else:
            words.add(parameter.name)
    return words


def network_calls() -> set[str]:
    """Those that end with an answer: coroutine functions."""
    return {
        f"{owner}.{name}"
        for owner, kind in OBJECTS.items()
        for name, member in members(kind)
        if name not in SPECIAL and inspect.iscoroutinefunction(inspect.unwrap(member))
    }


def models() -> set[str]:
    """What must have been seen in a result or an error: every class that a call brings, and every word."""
    words = {f"{name}.{word}" for name, kind in WORDS.items() for word in kind.__members__}
    made = MADE_BY_CALLERS | {"AsyncClient", "Tasks", "Workflows", "Completions"}
    return words | (OBJECTS.keys() - made) | ERRORS.keys()


def install() -> None:
    """Wrap every public call for this process."""
    for owner, kind in [*OBJECTS.items(), *WORDS.items()]:
        for name, member in list(members(kind)):
            call = f"{owner}.{name}"
            setattr(kind, name, _read(call, member) if isinstance(member, property) else _recorded(call, member))
    otel.enable_context = _recorded("otel.enable_context", otel.enable_context)


def _from_outside() -> bool:
    """Whether the caller of the wrapper is no part of the package (nor code that dataclasses generated for it)."""
    return not str(sys._getframe(2).f_globals.get("__name__", "")).startswith(PACKAGE)


def _read(call: str, member: property) -> property:
    assert member.fget is not None
    getter = member.fget

    def read(owner: Any) -> Any:
        if _from_outside():
            RECORD.used[call] |= set()
        return getter(owner)

    return property(read, doc=member.__doc__)


def _recorded(call: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        outside = _from_outside()
        if outside:
            _note(call, signature, args, kwargs)
        result = function(*args, **kwargs)
        if outside and inspect.iscoroutine(result):
            return _watched(call, result)
        if outside:
            RECORD.look_at(result)
        return result

    return wrapper


def _note(call: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    RECORD.used[call] |= kwargs.keys()
    positional = list(signature.parameters)[: len(args)]
    RECORD.used[call] |= set(positional[1:])


async def _watched(call: str, coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        result = await coroutine
    except BaseException as error:
        RECORD.ended(call, error)
        raise
    RECORD.ended(call, None, result)
    return result
