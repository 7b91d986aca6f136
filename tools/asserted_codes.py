"""Which error codes the checks assert, read from their source: `.refused(...)`, inside `unchanged` or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from protocol3_spec.loader import errors

SUBJECTS = {"scenario": "", "race": "contests/"}
"""What declares a check, and what stands before the name that it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """One `.refused(code, status)` in the text of a check. `read_back`: everything is read before and after it."""

    check: str
    code: str
    status: int
    read_back: bool


def asserted(path: Path) -> Iterator[Asserted]:
    """What the checks of one module assert themselves, helpers outside them apart."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for decorator in getattr(function, "decorator_list", []):
            match decorator:
                case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str(name)), *_]) if kind in SUBJECTS:
                    yield from _within(function, SUBJECTS[kind] + name, read_back=False)


def _within(node: ast.AST, check: str, *, read_back: bool) -> Iterator[Asserted]:
    match node:
        case ast.AsyncWith(items=items):
            read_back = read_back or any(_is_unchanged(item.context_expr) for item in items)
        case ast.Call(func=ast.Attribute(attr="refused"), args=[ast.Constant(value=str(code)), *rest]):
            status = rest[0].value if rest and isinstance(rest[0], ast.Constant) else errors()[code].statuses[0]
            assert isinstance(status, int)
            yield Asserted(check=check, code=code, status=status, read_back=read_back)
    for child in ast.iter_child_nodes(node):
        yield from _within(child, check, read_back=read_back)


def _is_unchanged(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and getattr(expression.func, "id", None) == "unchanged"
