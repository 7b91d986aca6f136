"""Print what a helper's public modules offer, as JSON. Runs in an interpreter of its own: `probe.py IMPORT_ROOT`."""

from __future__ import annotations

import dataclasses
import dis
import enum
import importlib
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Iterator

MODULES = ("ledgence.worker", "ledgence.worker.workflow", "ledgence.worker.otel")
SPECIAL = ("__await__", "__iter__", "__call__")
EMPTY = inspect.Parameter.empty


def offered(path: str) -> dict[str, object]:
    """The classes and functions that the helper defines, and SCHEMA; imported helpers of the module are not public."""
    module = importlib.import_module(path)
    found: dict[str, object] = {name: described(item) for name, item in _public(module)}
    if path == "ledgence.worker":
        found["__all__"] = sorted(module.__all__)
    return found


def _public(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    for name in {**vars(module), **dict.fromkeys(getattr(module, "__all__", ()))}:
        item = getattr(module, name)
        ours = callable(item) and str(getattr(item, "__module__", "")).startswith("ledgence.worker")
        if not name.startswith("_") and (ours or name == "SCHEMA"):
            yield name, item


def described(item: object) -> dict[str, object]:
    if inspect.isclass(item):
        return _class(item)
    if inspect.isfunction(item):
        return {"name": [item.__module__, item.__qualname__], "signature": signature(item)}
    return {"value": repr(item)}


def _class(item: type) -> dict[str, object]:
    found: dict[str, object] = {
        "name": [item.__module__, item.__qualname__],
        "bases": [base.__name__ for base in item.__mro__[1:]],
        "signature": signature(item),
    }
    if issubclass(item, enum.Enum):
        return found | {"members": {member.name: member.value for member in item}}
    names = {name for name in dir(item) if not name.startswith("_")} | _set_by_init(item)
    names |= {name for name in SPECIAL if name in vars(item)}
    found["members"] = {name: _member(item, name) for name in sorted(names)}
    found["hashable"] = item.__hash__ is not None
    found["compared"] = item.__eq__ is not object.__eq__
    if dataclasses.is_dataclass(item):
        found["frozen"] = item.__dataclass_params__.frozen  # type: ignore[attr-defined]  # no public name for it
        fields = [field for field in dataclasses.fields(item) if not field.name.startswith("_")]
        missing = dataclasses.MISSING
        found["fields"] = [[f.name, None if f.default is missing else repr(f.default)] for f in fields]
    return found


def _set_by_init(item: type) -> set[str]:
    """Attributes that exist on instances only."""
    code = getattr(item.__init__, "__code__", None)  # type: ignore[misc]  # read, not called
    stored = [step.argval for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"] if code else []
    return {name for name in stored if not name.startswith("_")}


def _member(owner: type, name: str) -> dict[str, object]:
    raw = inspect.getattr_static(owner, name, None)
    if isinstance(raw, staticmethod | classmethod):
        return {"kind": type(raw).__name__, "signature": signature(getattr(owner, name))}
    if inspect.isfunction(raw):
        return {"kind": "method", "signature": signature(raw)}
    return {"kind": "attribute"}


def signature(item: Callable[..., object]) -> dict[str, object] | None:
    """Parameters as [name, kind, default, annotation]; None where Python knows no signature."""
    try:
        found = inspect.signature(item)
    except (TypeError, ValueError):
        return None
    parameters = [
        [name, p.kind.name, None if p.default is EMPTY else repr(p.default), _annotation(item, name, p.annotation)]
        for name, p in found.parameters.items()
    ]
    returned = _annotation(item, "return", found.return_annotation)
    return {"parameters": parameters, "returns": returned, "coroutine": inspect.iscoroutinefunction(item)}


def _annotation(item: object, name: str, given: object) -> str | None:
    """The annotation's text, the same for `Optional[str]`, `str | None` and their quoted forms."""
    if given is EMPTY:
        return None
    try:
        return _text(typing.get_type_hints(item)[name])
    except (KeyError, NameError, TypeError):
        return str(given)


def _text(given: object) -> str:
    if isinstance(given, type) and not typing.get_args(given):
        return "None" if given is type(None) else given.__name__
    if typing.get_origin(given) in (typing.Union, types.UnionType):
        return " | ".join(_text(part) for part in typing.get_args(given))
    return str(given).removeprefix("typing.")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    print(json.dumps({path: offered(path) for path in MODULES}))
