"""Known failures: `--baseline FILE`, one check ID a line, a reason behind `#`. Strict in both directions.

`--known-flaky FILE` has the same form. It lists what may fail now and then; that it held says nothing against an entry.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

from protocol3_conformance.verdict import Outcome, State

HEAD = "# Known failures of the protocol 3 conformance suite: CHECK-ID  # reason\n"
NO_REASON = "no reason given"


class BadBaseline(ValueError):
    """The file cannot be used; the message says where and why."""


def read(path: Path, known: Iterable[str], *, option: str = "baseline") -> dict[str, str]:
    """Reasons by check ID. Raises BadBaseline, also for an ID that no check has."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # some editors begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        hint = f"; --write-baseline {path} writes one" if option == "baseline" else ""
        raise BadBaseline(f"{path}: {error}{hint}") from None
    names, entries = set(known), {}
    for number, line in enumerate(lines, start=1):
        check_id, _, reason = (part.strip() for part in line.partition("#"))
        if not check_id:
            continue
        if check_id not in names:
            near = difflib.get_close_matches(check_id, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadBaseline(f"{path}:{number}: no check is called {check_id}{hint}")
        if check_id in entries:
            raise BadBaseline(f"{path}:{number}: {check_id} is listed twice")
        entries[check_id] = reason or NO_REASON
    return entries


def stale(entries: Mapping[str, str], outcomes: Iterable[Outcome]) -> list[str]:
    """Entries whose check ran and did not fail. What was not determined, or left out of the run, says nothing."""
    over = {one.check_id for one in outcomes if one.state in (State.PASSED, State.NOT_CLAIMED)}
    return [check_id for check_id in entries if check_id in over]


def write(path: Path, outcomes: Iterable[Outcome], former: Mapping[str, str]) -> int:
    """Write what failed, with the reasons that were known; how many there are. Raises OSError."""
    states = (State.FAILED, State.KNOWN_FAILURE)
    failed = {one.check_id for one in outcomes if one.state in states and not one.flaky}
    lines = [f"{check_id}  # {former.get(check_id, 'to do')}\n" for check_id in sorted(failed)]
    path.write_text("".join([HEAD, *lines]), encoding="utf-8")
    return len(failed)
