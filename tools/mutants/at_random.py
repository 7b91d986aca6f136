"""`./dev mutants --random N`: edits that nobody thought of, ruled in parts if one run would be too long.

Each is judged as a coordinator and, if it survives that, as a worker: the models of `contract` are of both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mutants import drawn
from mutants.entries import Mutant
from mutants.judging import Ruling, Verdict
from mutants.matrix import entry
from mutants.record import FATES, LISTED, UNDECIDED, UNJUDGED, Record, Survivor

PASSES = ("coordinator", "worker")
Verdicts = dict[str, dict[str, dict[str, Any]]]
"""By the mutant's ID and its role, as a file keeps them between the parts of a run."""


def numbers(text: str) -> set[int]:
    """`3,17,40-59`, all included. Raises ValueError."""
    ends = (part.partition("-") for part in text.split(","))
    return {number for low, _, high in ends for number in range(int(low), int(high or low) + 1)}


def load(file: Path | None) -> Verdicts:
    if file is None or not file.exists():
        return {}
    kept: Verdicts = json.loads(file.read_text(encoding="utf-8"))
    return kept


def left(drawn: Sequence[Mutant], only: set[int] | None, kept: Verdicts, role: str) -> list[Mutant]:
    """Of the drawn, in order: those asked for that this role is still to judge."""
    asked = [one for number, one in enumerate(drawn) if only is None or number in only]
    if role != PASSES[0]:
        asked = [one for one in asked if fate(kept.get(one.id, {})) in LISTED]
    turned = (replace(one, role=role) for one in asked)
    return [one for one in turned if kept.get(one.id, {}).get(role, {}).get("digest") != one.digest]


def kept_as_they_come(rulings: Iterable[Ruling], kept: Verdicts, file: Path | None) -> Iterator[Ruling]:
    """What ends early loses nothing."""
    for ruling in rulings:
        ruled = {**entry(ruling), "checks": ruling.checks, "unended": ruling.unended, "detail": ruling.detail}
        mutant = ruling.mutant
        kept.setdefault(mutant.id, {})[mutant.role] = {**ruled, "sentence": mutant.sentence}
        if file is not None:
            file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        yield ruling


def fate(ruled: dict[str, dict[str, Any]]) -> str:
    """One kill decides; to survive is to pass every check. Stillborn is what no coordinator can be started of."""
    if any(one["verdict"] == Verdict.KILLED for one in ruled.values()):
        return Verdict.KILLED
    if PASSES[0] not in ruled:
        return UNJUDGED
    if ruled[PASSES[0]]["verdict"] == Verdict.STILLBORN:
        return Verdict.STILLBORN
    return UNDECIDED if any(one["unended"] for one in ruled.values()) else Verdict.SURVIVED


def counts(picked: Iterable[Mutant], kept: Verdicts) -> dict[str, int]:
    found = Counter(fate(kept.get(one.id, {})) for one in picked)
    return {name: found[name] for name in FATES}


def made(picked: Sequence[Mutant], kept: Verdicts, before: Sequence[Survivor], *, seed: int, commit: str) -> Record:
    """Of a run that is over. What is said of the same edits `before` stays."""
    said = {one.edit: one for one in before}
    found = [survivor(number, mutant, fate(kept.get(mutant.id, {}))) for number, mutant in enumerate(picked)]
    return Record(
        seed=seed,
        drawn=len(picked),
        commit=commit,
        counts=counts(picked, kept),
        survivors=[
            replace(said.get(one.edit, one), number=one.number, fate=one.fate) for one in found if one.fate in LISTED
        ],
    )


def survivor(number: int, mutant: Mutant, became: str) -> Survivor:
    (edit,) = mutant.edits
    _, line, becomes = drawn.changed(edit.old, edit.new)
    operator = mutant.sentence.partition(" ")[0]
    return Survivor(number=number, fate=became, operator=operator, file=edit.file, line=line, becomes=becomes)
