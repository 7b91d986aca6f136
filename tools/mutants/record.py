"""What became of the edits drawn at random, and what was done about the survivors: conformance/mutants/random.toml.

The score counts the killed of those that could be: a survivor counts against it unless it is said why nothing outside
can tell it from the reference, and so does one that no check ever ran against. A survivor that a check written since
kills counts as killed in the second score.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mutants.entries import HOME, RECORD
from mutants.judging import Verdict
from protocol3_conformance import catalogue

UNDECIDED, UNJUDGED = "undecided", "unjudged"
FATES = (str(Verdict.KILLED), str(Verdict.SURVIVED), str(Verdict.STILLBORN), UNDECIDED, UNJUDGED)
LISTED = (Verdict.SURVIVED, UNDECIDED, UNJUDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """One that no check killed in that run. `killed_by` is a check of today, `equivalent` why there can be none."""

    number: int
    fate: str
    operator: str
    file: str
    line: str
    becomes: str
    equivalent: str | None = None
    killed_by: str | None = None

    @property
    def edit(self) -> tuple[str, str, str, str]:
        return (self.operator, self.file, self.line, self.becomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`counts` is by fate, of `drawn` edits of the source at `commit`."""

    seed: int
    drawn: int
    commit: str
    counts: Mapping[str, int]
    survivors: Sequence[Survivor]

    @property
    def real(self) -> int:
        """The killed and the survivors that are faults, or may be."""
        return self.counts[Verdict.KILLED] + sum(one.equivalent is None for one in self.survivors)

    @property
    def killed_now(self) -> int:
        return self.counts[Verdict.KILLED] + sum(one.killed_by is not None for one in self.survivors)


def read(path: Path = HOME / RECORD) -> Record:
    """Raises ValueError, TypeError or KeyError for a file that is not of this form."""
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    survivors = [Survivor(**one) for one in content.pop("survivor", [])]
    return Record(survivors=survivors, **content)


def faults(record: Record) -> Iterator[str]:
    """What does not add up, a line each."""
    if set(record.counts) != set(FATES) or sum(record.counts.values()) != record.drawn:
        yield f"{RECORD}: {', '.join(FATES)} do not add up to {record.drawn} drawn"
    listed = Counter(one.fate for one in record.survivors)
    for fate in LISTED:
        if listed[fate] != record.counts.get(fate):
            yield f"{RECORD}: {listed[fate]} {fate} are listed, {record.counts.get(fate)} counted"
    known = catalogue.everything()
    for number, times in Counter(one.number for one in record.survivors).items():
        if times > 1 or not 0 <= number < record.drawn:
            yield f"{RECORD}: survivor {number} is listed {times} times, of {record.drawn} from 0 on"
    for one in record.survivors:
        if one.equivalent is not None and one.killed_by is not None:
            yield f"{RECORD}: survivor {one.number} is equivalent or killed, not both"
        if one.killed_by is not None and one.killed_by not in known:
            yield f"{RECORD}: survivor {one.number}: there is no check {one.killed_by}"


def write(record: Record, path: Path = HOME / RECORD) -> None:
    """JSON's strings are TOML's, so nothing but the frame of the file is made here."""
    lines = [
        f"# ./dev mutants --random {record.drawn} --seed {record.seed}, and what was done about each survivor.",
        f"seed = {record.seed}",
        f"drawn = {record.drawn}",
        f'commit = "{record.commit}"',
        f"counts = {{ {', '.join(f'{name} = {count}' for name, count in record.counts.items())} }}",
    ]
    for one in record.survivors:
        members = {field.name: getattr(one, field.name) for field in fields(one)}
        given = {name: value for name, value in members.items() if value is not None}
        lines += ["", "[[survivor]]", *(f"{name} = {json.dumps(value)}" for name, value in given.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def section(record: Record) -> list[str]:
    """For the page of the matrix."""
    equivalent = sum(one.equivalent is not None for one in record.survivors)
    told = ", ".join(f"{count} {name}" for name, count in record.counts.items())
    return [
        "",
        "## At random",
        "",
        f"Of all edits that cosmic-ray's operators can make of `core` and `contract` at commit {record.commit}, "
        f"{record.drawn} were drawn by seed {record.seed} and given to the whole suite, which knew nothing of them: "
        f"{told}. Stillborn ones do not start; for undecided ones the time was over; unjudged ones were only read, or "
        "started as a worker but never as a coordinator.",
        "",
        f"{equivalent} are equivalent: nothing outside differs. Of the {record.real} that are killed or not equivalent "
        f"the suite killed {_share(record.counts[Verdict.KILLED], record.real)}; with the checks written for survivors "
        f"it kills {_share(record.killed_now, record.real)}.",
        "",
        "| not killed at first | where | line | becomes | what it is |",
        "|" + " --- |" * 5,
        *(_row(one) for one in record.survivors),
    ]


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / max(whole, 1):.0%})"


def _row(one: Survivor) -> str:
    if one.killed_by:
        told = f"now killed by `{one.killed_by}`"
    else:
        told = f"equivalent: {one.equivalent}" if one.equivalent else "**not killed**"
    cells = [f"{one.number} {one.operator}, {one.fate}", one.file, _code(one.line), _code(one.becomes), told]
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text.replace('|', chr(92) + '|')}{fence}"
