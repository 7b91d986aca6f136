"""What a campaign tells in the end, the same way for all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`cases`: how many things were judged; `rows`: one per part of the campaign; `faults`: what is wrong, in words."""

    seed: int
    cases: int
    totals: Mapping[str, int]
    rows: Sequence[Mapping[str, Any]] = ()
    faults: Sequence[str] = field(default_factory=list)

    def show(self, *, as_json: bool) -> None:
        """JSON is one document on standard output; else a table, the totals and a closing line that `./dev` counts."""
        if as_json:
            whole = {"seed": self.seed, "cases": self.cases, "totals": dict(self.totals)}
            print(json.dumps(whole | {"rows": list(self.rows), "faults": list(self.faults)}, indent=2))
            return
        _print_table(self.rows)
        print(", ".join(f"{name}: {count}" for name, count in {"seed": self.seed, **self.totals}.items()))
        print(*self.faults, sep="\n", file=sys.stderr)
        print(f"{max(self.cases - len(self.faults), 0)} passed, {len(self.faults)} failed")


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())
