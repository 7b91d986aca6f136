"""What a bare `assert` tells when it fails: its whole statement, what its names stood for, where two sides differ."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Iterator

from protocol3_conformance.wire.difference import cut, differences

NAMES_SHOWN = 8
PURE = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Slice, ast.UnaryOp, ast.unaryop, ast.expr_context)
"""What can be evaluated again without doing anything again."""
PLAIN = (str, int, float, list, tuple, dict, set, type(None))


def comparison(op: str, left: object, right: object) -> list[str] | None:
    """The explanation of a failed comparison of containers, in pytest's form; None: pytest has its own."""
    if op != "==" or type(left) is not type(right) or not isinstance(left, dict | list | tuple):
        return None
    return [f"{cut(left)} == {cut(right)}", *differences(left, right)]


def told(frame: types.FrameType, line: int) -> list[str]:
    """The statement at this line of a frame, and what each name in it stands for."""
    file = frame.f_code.co_filename
    found = _statement("".join(linecache.getlines(file)), line)
    if found is None:
        return [linecache.getline(file, line).strip()]
    bare = ast.Assert(test=found.test) if isinstance(found, ast.Assert) else found  # its message is told beside it
    return [ast.unparse(bare), *(f"    {name} is {value}" for name, value in _values(found, frame))]


@functools.lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _statement(source: str, line: int) -> ast.stmt | None:
    """The simple statement that this line is of."""
    for node in ast.walk(_parsed(source)):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if node.lineno <= line <= (node.end_lineno or line):
            return node
    return None


def _values(statement: ast.stmt, frame: types.FrameType) -> Iterator[tuple[str, str]]:
    """Of an assertion: the longest expressions in it that only name something, with what they name."""
    shown: dict[str, str] = {}
    for node in _names(statement.test) if isinstance(statement, ast.Assert) else ():
        text = ast.unparse(node)
        try:
            value = eval(compile(ast.Expression(node), "<names>", "eval"), frame.f_globals, frame.f_locals)  # noqa: S307  # names of our own source
        except Exception:  # noqa: BLE001, S112  # a name of an inner scope, or what a lie of the target left out
            continue
        if isinstance(value, PLAIN) and not text.isupper():
            shown.setdefault(text, cut(value))
    yield from list(shown.items())[:NAMES_SHOWN]


def _names(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant):
        return
    if all(isinstance(each, PURE) for each in ast.walk(node)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _names(child)
        elif isinstance(child, ast.keyword):
            yield from _names(child.value)
