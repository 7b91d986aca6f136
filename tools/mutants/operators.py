"""Random edits by cosmic-ray's operators, as JSON lines: `python operators.py COUNT SEED FILE …` in .envs/mutation.

A line holds the operator, the file and the whole edited text. Left out is what makes no program, and what edits how a
record is declared (frozen, slots), which nothing outside can see.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from cosmic_ray import plugins  # type: ignore[import-not-found]  # in .envs/mutation
from cosmic_ray.ast import ast_nodes, get_ast  # type: ignore[import-not-found]  # in .envs/mutation
from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found]  # in .envs/mutation

LEFT_OUT = ("BitOr", "RemoveDecorator", "Variable")
"""Unions of types are no arithmetic, records without their decorator do not start, and some want a name to insert."""


def operators() -> dict[str, Any]:
    names = (name for name in plugins.operator_names() if not any(word in name for word in LEFT_OUT))
    return {name: plugins.get_operator(name)() for name in names}


def places(known: dict[str, Any], files: list[Path]) -> Iterator[tuple[str, Path, int]]:
    """Every edit that there is: the operator, the file, which of its occurrences."""
    for file in files:
        nodes = list(ast_nodes(get_ast(file.read_text(encoding="utf-8"))))
        for name, operator in known.items():
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            yield from ((name, file, number) for number in range(count))


def drawn(every: list[tuple[str, Path, int]], known: dict[str, Any], seed: int) -> Iterator[dict[str, str]]:
    """All edits in the order of the seed, so that fewer are the first ones of more."""
    for name, file, number in random.Random(seed).sample(every, len(every)):  # noqa: S311 - not for secrets
        text = file.read_text(encoding="utf-8")
        edited = mutate_code(text, known[name], number)
        pairs = zip(text.splitlines(), edited.splitlines(), strict=True)
        line = next(old for old, new in pairs if old != new)
        if runs(edited) and not line.lstrip().startswith("@dataclass"):
            yield {"operator": name.partition("/")[2], "file": str(file), "text": edited}


def runs(text: str) -> bool:
    """An asterisk before arguments is taken for a product, and one more makes no program."""
    try:
        compile(text, "edited", "exec")
    except SyntaxError:
        return False
    return True


def main(count: int, seed: int, files: list[Path]) -> None:
    warnings.simplefilter("ignore")  # of `is` beside a literal
    known = operators()
    for edit in islice(drawn(list(places(known, files)), known, seed), count):
        print(json.dumps(edit))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Path(word) for word in sys.argv[3:]])
