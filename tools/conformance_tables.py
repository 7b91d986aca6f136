"""Tables of what the checks look for, and what none of them does.

    python tools/conformance_tables.py [troubles …]

`troubles`: failures of real engines and the checks that play them. Without a word all tables are made. The last line
counts; it ends with 1 if something is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "spec")]

from protocol3_conformance import catalogue  # noqa: E402 - the path above
from protocol3_conformance.troubles import faults, troubles  # noqa: E402 - the path above

Table = Callable[[], Iterator[tuple[str, bool]]]
"""Lines, and whether each is in order."""


def of_troubles() -> Iterator[tuple[str, bool]]:
    rows = troubles()
    for row in rows:
        where = ", ".join(row.checks) or f"excluded: {row.excluded}"
        later = "\n   to name: a check that restarts the target (crashes/…)" if row.awaits_restart else ""
        yield f"{row.number:2} {row.report}\n   {where}{later}", True
    yield from ((fault, False) for fault in faults(rows, catalogue.everything()))


TABLES: dict[str, Table] = {"troubles": of_troubles}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE", help=", ".join(TABLES))
    arguments = parser.parse_args(words)
    passed = failed = 0
    for name in arguments.tables or TABLES:
        print(f"{name}:")
        for line, good in TABLES[name]():
            print(line if good else f"MISSING {line}")
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
