"""Mutants that nobody thought of: edits drawn from all that a tool's operators can make of the pure rooms."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import environment
from mutants.entries import ROOT, Edit, Mutant

PACKAGE = ROOT / "reference" / "protocol3"
ROOMS = ("core", "contract")
ENVIRONMENT = ROOT / ".envs" / "mutation"


def mutants(count: int, seed: int) -> list[Mutant]:
    """So many, the same for one seed and source. They name no broken rule: any check of a coordinator may kill them."""
    environment.ensure(ENVIRONMENT)
    files = sorted(str(path) for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))
    script = Path(__file__).with_name("operators.py")
    command = [str(ENVIRONMENT / "bin" / "python"), str(script), str(count), str(seed), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [_mutant(number, json.loads(line)) for number, line in enumerate(done.stdout.splitlines())]


def _mutant(number: int, drawn: dict[str, str]) -> Mutant:
    path, text = Path(drawn["file"]), drawn["text"]
    old = path.read_text(encoding="utf-8")
    at, before, after = changed(old, text)
    file = path.relative_to(PACKAGE).as_posix()
    return Mutant(
        id=f"random-{number}",
        sentence=f"{drawn['operator']} in {file}:{at}: {before}  becomes  {after}",
        role="coordinator",
        kind="random",
        breaks=(),
        edits=(Edit(file=file, old=old, new=text),),
        source="random",
    )


def changed(old: str, new: str) -> tuple[int, str, str]:
    """The number of the edited line, and what it was and is."""
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=True), 1)
    return next((at, before.strip(), after.strip()) for at, (before, after) in pairs if before != after)
