"""Load the handler, and only from the package (RUN-018, RUN-041 … RUN-046)."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from types import MethodType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_HANDLER = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
_CO_COROUTINE = 0x80


class HandlerRefused(Exception):
    """The handler cannot be taken from this package."""


def load(handler: str, package_root: str, *, allow_coroutine: bool) -> Callable[..., Any]:
    """Import `module:function` from the package and return the callable.

    `package_root` is already the first entry of the import path. Raises HandlerRefused, and whatever importing raises.
    """
    named = _HANDLER.fullmatch(handler)
    if named is None:
        raise HandlerRefused(f"handler {handler!r} is not module:function")
    root = os.path.realpath(package_root)
    parts = named[1].split(".")
    prefixes = [".".join(parts[: end + 1]) for end in range(len(parts))]
    for prefix in prefixes:
        if prefix in sys.modules:
            raise HandlerRefused(f"module name {prefix!r} is already in use")

    path: Iterable[str] = [root]
    for prefix in prefixes:
        _check_spec(prefix, PathFinder.find_spec(prefix, list(path)), root, package=prefix != prefixes[-1])
        module = import_module(prefix)
        _check_spec(prefix, module.__spec__, root, package=prefix != prefixes[-1])
        _check_file(prefix, getattr(module, "__file__", None), root)
        path = getattr(module, "__path__", ())
        for directory in path:
            _check_file(prefix, directory, root)
    return _callable(module, named[2], allow_coroutine)


def _check_spec(name: str, spec: ModuleSpec | None, root: str, *, package: bool) -> None:
    if spec is None:
        raise HandlerRefused(f"module {name!r} is not in the package")
    if package and spec.submodule_search_locations is None:
        raise HandlerRefused(f"module {name!r} is not a package")
    for directory in spec.submodule_search_locations or ():
        _check_file(name, directory, root)
    if spec.has_location:
        _check_file(name, spec.origin, root)
    elif spec.submodule_search_locations is None:
        raise HandlerRefused(f"module {name!r} has no file in the package")


def _check_file(name: str, path: str | None, root: str) -> None:
    if path is not None and not os.path.realpath(path).startswith(root.rstrip(os.sep) + os.sep):
        raise HandlerRefused(f"module {name!r} lies outside the package")


def _callable(module: ModuleType, name: str, allow_coroutine: bool) -> Callable[..., Any]:
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        wrong = f"is {type(function).__name__}, no callable" if hasattr(module, name) else "does not exist"
        hint = "; name what its build() returns" if callable(getattr(function, "build", None)) else ""
        raise HandlerRefused(f"{module.__name__}:{name} {wrong}{hint}")
    if not allow_coroutine and _is_coroutine_function(function):
        raise HandlerRefused(f"{module.__name__}:{name} is a coroutine function; that needs protocol 3")
    return function


def _is_coroutine_function(function: Any) -> bool:
    """`inspect.iscoroutinefunction` without importing `inspect`, which protocols 1 and 2 do not otherwise need."""
    while isinstance(function, partial | MethodType):
        function = function.func if isinstance(function, partial) else function.__func__
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _CO_COROUTINE)
