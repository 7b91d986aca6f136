"""Names and arguments of the functions that steps run (HLP-050, HLP-066)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ._checks import text
from ._errors import WorkflowError
from ._limits import CALLABLE_BYTES

Function = Callable[..., Any]


def callable_name(fn: Function) -> str:
    """`module:qualname`, the durable name of a function."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not callable(fn) or isinstance(fn, functools.partial) or not module or not qualname:
        raise WorkflowError("fn: not a callable with a module and a qualified name")
    return text(f"{module}:{qualname}", "fn: its name", CALLABLE_BYTES)


def effective_arguments(fn: Function, arguments: object) -> dict[str, Any]:
    """`arguments` bound to the signature of `fn`, keyword defaults added."""
    if type(arguments) is not dict or not all(type(name) is str for name in arguments):
        raise WorkflowError("arguments: not a dict with string keys")
    try:
        bound = inspect.signature(fn).bind(**arguments)
    except (TypeError, ValueError) as error:
        raise WorkflowError(f"arguments: {error}") from None
    bound.apply_defaults()
    effective: dict[str, Any] = {}
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise WorkflowError(f"arguments: {name} is positional-only")
        if parameter.kind is parameter.VAR_KEYWORD:
            effective.update(bound.arguments[name])
        elif parameter.kind is not parameter.VAR_POSITIONAL:  # nothing was bound to it by name
            effective[name] = bound.arguments[name]
    return effective
