"""Which rule of the contract is implemented where and proven by what: `docs/coverage-reference.md`.

    python tools/coverage.py              check, and count the checks
    python tools/coverage.py --write      write the table anew, then check
    python tools/coverage.py DLV-056 ...  one rule: its sentence, and every citation with its line

Standard library only. A citation is a claim; whether the test behind it passes is for the other stages to say.
The table names functions, not lines, so that it changes when a citation does and not with every edit above one.
"""

import argparse
import enum
import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from citations import PREFIXES, Catalogue, Place, checks, places, sources

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/coverage-reference.md"
REASONS = ROOT / "tools/coverage_reasons.toml"
SMALL = 120  # lines of a module whose own docstring still says precisely where a rule is
WIDE = 8  # IDs of a range beyond which it no longer says so
SHOWN = 4  # places named in one cell
SENTENCE = 110  # characters of a rule's sentence

RULES = f"""\
**Implemented**: a docstring or comment below `reference/protocol3` or `fixtures/programs` cites the ID at a function,
class, constant or line. The docstring of a module counts when the module has at most {SMALL} lines; a range of more
than {WIDE} IDs counts nowhere. What does not count is shown in parentheses.

**Tested**: a test function (its docstring, comments or parameters) or a table of parameters below `reference/tests`
(but its `tools`) or `reference/interop` cites it, modules and ranges as above; or a check of the conformance suite
lists it in its `cites`; or the suite's wire layer, which judges every exchange of every check, names it.

**States**: *both*; *excused*: what is absent has a written reason (an optional profile that is not offered, a rule
without code of its own, a rule that cannot be observed); *open*: known to be not implemented or not proven, or cited
but not done as the rule has it, with what is missing; *missing*: neither. The reasons are in
`tools/coverage_reasons.toml`. A row with `(= ID)` has the state of its owners, a `REQ` row that of the rules it maps
to. `RACE` rows combine rules that are implemented elsewhere and need a test only. *Informative* rows are not judged."""


class State(enum.StrEnum):
    BOTH = "both"
    EXCUSED = "excused"
    OPEN = "open"
    MISSING = "missing"
    INFORMATIVE = "informative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One place as the table names it. `counts`: precise enough to speak for the rule."""

    label: str
    where: str
    counts: bool


@dataclass(slots=True, kw_only=True)
class Row:
    """One rule with everything that cites it. `owners`: the rules that decide instead."""

    identifier: str
    text: str
    informative: bool
    owners: list[str]
    implemented: list[Evidence] = field(default_factory=list)
    tested: list[Evidence] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return self.identifier.partition("-")[0]

    @property
    def has_code(self) -> bool:
        return self.prefix == "RACE" or any(one.counts for one in self.implemented)

    @property
    def has_test(self) -> bool:
        return any(one.counts for one in self.tested)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """The reasons file, IDs written out. `optional` holds whole prefixes too."""

    optional: dict[str, str]
    open: dict[str, str]
    partly: dict[str, str]
    no_code: dict[str, str]
    no_test: dict[str, str]

    @classmethod
    def read(cls, catalogue: Catalogue) -> "Reasons":
        """Raises SystemExit for a key that names no rule."""
        tables = tomllib.loads(REASONS.read_text(encoding="utf-8"))
        found: dict[str, dict[str, str]] = {}
        for kind in ("optional", "open", "partly", "no_code", "no_test"):
            reasons = found[kind] = {}
            for key, reason in tables.get(kind, {}).items():
                if kind == "optional" and key in PREFIXES:
                    identifiers = [f"{key}-{number}" for number in catalogue.numbers[key]]
                else:
                    identifiers = [one.identifier for one in catalogue.named(key)]
                if not identifiers or not catalogue.known.issuperset(identifiers):
                    raise SystemExit(f"{REASONS.name}: {key!r} in [{kind}] names no rule")
                reasons.update(dict.fromkeys(identifiers, reason))
        return cls(**found)

    def of(self, row: Row) -> list[str]:
        """The reasons that apply to a row, for its cell."""
        kinds = (self.optional, self.open, self.partly, self.no_code, self.no_test)
        return list(dict.fromkeys(kind[row.identifier] for kind in kinds if row.identifier in kind))


class Coverage:
    """All rows, filled from the sources."""

    def __init__(self) -> None:
        requirements = json.loads((ROOT / "spec/protocol3_spec/requirements.json").read_text())["requirements"]
        self.catalogue = Catalogue([one["id"] for one in requirements])
        self.rows = {one["id"]: self._row(one) for one in requirements}
        self.reasons = Reasons.read(self.catalogue)
        self.unknown: list[str] = []
        for folder in ("reference/protocol3", "fixtures/programs"):
            for path in sources(ROOT / folder):
                for place in places(self.catalogue, ROOT, path):
                    self._add(place, tested=False, counts=bool(place.holder) and place.width <= WIDE)
        for folder in ("reference/tests", "reference/interop"):
            for path in sources(ROOT / folder, but=ROOT / "reference/tests/tools"):
                for place in places(self.catalogue, ROOT, path, strings=True):
                    self._add(place, tested=True, counts=_is_test(place.holder) and place.width <= WIDE)
        suite = ROOT / "conformance/protocol3_conformance"
        for path in sources(suite / "wire"):
            for place in places(self.catalogue, ROOT, path, strings=True):
                self._add(place, tested=True, counts=bool(place.holder) and place.width == 1)
        for path in sources(suite / "scenarios"):
            for check in checks(ROOT, path):
                evidence = Evidence(label=f"`{check.check_id}`", where=f"{check.path}:{check.line}", counts=True)
                for identifier in check.cites:
                    self._put(identifier, evidence, tested=True)
        self.states: dict[str, State] = {}

    def _row(self, requirement: dict[str, object]) -> Row:
        text = str(requirement["text"])
        owners = requirement["owned_by"]
        if str(requirement["id"]).startswith("REQ-"):
            owners = [one.identifier for one in self.catalogue.named(text.rpartition("|")[2])]
        assert isinstance(owners, list)
        informative = requirement["level"] == "INFORMATIVE"
        return Row(identifier=str(requirement["id"]), text=text, informative=informative, owners=owners)

    def _add(self, place: Place, *, tested: bool, counts: bool) -> None:
        counts = counts or (not place.holder and place.module_lines <= SMALL and place.width <= WIDE)
        file = place.path.removeprefix("reference/protocol3/").removeprefix("reference/")
        file = file.removeprefix("conformance/protocol3_conformance/")
        label = f"`{file}` {place.holder}".rstrip()
        evidence = Evidence(label=label, where=f"{place.path}:{place.line} {place.holder}".rstrip(), counts=counts)
        self._put(place.identifier, evidence, tested=tested)

    def _put(self, identifier: str, evidence: Evidence, *, tested: bool) -> None:
        if identifier not in self.rows:
            self.unknown.append(f"{evidence.where} cites {identifier}, which does not exist")
            return
        row = self.rows[identifier]
        (row.tested if tested else row.implemented).append(evidence)

    def code(self, row: Row) -> bool:
        """Implemented, itself or through its owners."""
        return row.has_code or (bool(row.owners) and all(self.code(self.rows[one]) for one in row.owners))

    def test(self, row: Row) -> bool:
        """Tested, itself or through its owners."""
        return row.has_test or (bool(row.owners) and all(self.test(self.rows[one]) for one in row.owners))

    def state(self, row: Row) -> State:
        if row.identifier not in self.states:
            self.states[row.identifier] = self._state(row)
        return self.states[row.identifier]

    def _state(self, row: Row) -> State:
        reasons, name = self.reasons, row.identifier
        if row.informative:
            return State.INFORMATIVE
        if name in reasons.open or name in reasons.partly:
            return State.OPEN
        if row.has_code and row.has_test:
            return State.BOTH
        if name in reasons.optional:
            return State.EXCUSED
        code, test = row.has_code or name in reasons.no_code, row.has_test or name in reasons.no_test
        if code and test:
            return State.EXCUSED
        if not row.owners:
            return State.MISSING
        states = {self.state(self.rows[one]) for one in row.owners} - {State.INFORMATIVE}
        order = (State.MISSING, State.OPEN, State.EXCUSED)
        return next((state for state in order if state in states), State.BOTH)

    def needless(self) -> list[str]:
        """Reasons that excuse what is there."""
        given = self.reasons
        return [
            *(f"[open] {one}: implemented and tested" for one in given.open if self._complete(one)),
            *(f"[partly] {one}: belongs in [open]" for one in given.partly if not self._complete(one)),
            *(f"[no_code] {one}: implemented" for one in given.no_code if self.rows[one].has_code),
            *(f"[no_test] {one}: tested" for one in given.no_test if self.rows[one].has_test),
        ]

    def _complete(self, identifier: str) -> bool:
        row = self.rows[identifier]
        return row.has_code and row.has_test


def _is_test(holder: str) -> bool:
    """A test function or class, or a constant: a table of parameters."""
    first, _, _ = holder.partition(".")
    return first.startswith(("test_", "Test")) or (first.isupper() and bool(first)) or first == "(comment)"


def sentence(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    if len(flat) <= SENTENCE:
        return flat
    cut = flat[: SENTENCE - 1]
    if cut.count("`") % 2:
        cut = cut.rpartition("`")[0]  # code that is cut would run on into the next cell
    return cut.rstrip("\\ ") + "…"


def cell(evidence: Iterable[Evidence]) -> str:
    labels: dict[str, bool] = {}
    for one in evidence:
        labels[one.label] = labels.get(one.label, False) or one.counts
    ordered = sorted(labels, key=lambda label: not labels[label])
    shown = [label if labels[label] else f"({label})" for label in ordered[:SHOWN]]
    return ", ".join([*shown, *([f"+{len(ordered) - SHOWN}"] if len(ordered) > SHOWN else [])])


def totals(coverage: Coverage) -> list[str]:
    head = ["prefix", "total", "implemented", "tested", *State]
    lines = [" | ".join(["", *head, ""]).strip(), "|" + " --- |" * len(head)]
    sums = [0] * (len(head) - 1)
    for prefix in coverage.catalogue.numbers:
        rows = [row for row in coverage.rows.values() if row.prefix == prefix]
        states = [coverage.state(row) for row in rows]
        numbers = [len(rows), sum(map(coverage.code, rows)), sum(map(coverage.test, rows))]
        numbers += [states.count(state) for state in State]
        sums = [one + other for one, other in zip(sums, numbers, strict=True)]
        lines.append(f"| {prefix} | " + " | ".join(map(str, numbers)) + " |")
    return [*lines, "| **all** | " + " | ".join(f"**{one}**" for one in sums) + " |"]


def note(coverage: Coverage, row: Row) -> str:
    """State, and why: reasons, owners."""
    reasons = coverage.reasons.of(row)
    owners = f"{'maps to' if row.prefix == 'REQ' else '='} {', '.join(row.owners)}" if row.owners else ""
    state = coverage.state(row)
    if state is State.BOTH or state is State.INFORMATIVE:
        reasons = []
    return ". ".join(
        part for part in (f"**{state}**" if state is State.MISSING else str(state), owners, *reasons) if part
    )


def rendered(coverage: Coverage) -> str:
    lines = ["# Coverage of the reference", ""]
    lines += [
        "Generated by `tools/coverage.py --write`; do not edit. `tools/coverage.py ID` shows one rule with lines.",
        "",
    ]
    lines += [RULES, "", *totals(coverage)]
    for prefix in coverage.catalogue.numbers:
        lines += ["", f"## {prefix}", "", "| ID | rule | state | implemented in | proven by |", "|" + " --- |" * 5]
        for row in coverage.rows.values():
            if row.prefix == prefix:
                cells = [
                    row.identifier,
                    sentence(row.text),
                    note(coverage, row),
                    cell(row.implemented),
                    cell(row.tested),
                ]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def check(coverage: Coverage) -> int:
    """Print what is wrong and count: the citations, the reasons, the rules of each prefix, the table."""
    stale = [] if TABLE.exists() and TABLE.read_text(encoding="utf-8") == rendered(coverage) else [TABLE.name]
    found = {"citation": coverage.unknown, "needless reason": coverage.needless()}
    for prefix in coverage.catalogue.numbers:
        rows = [row for row in coverage.rows.values() if row.prefix == prefix]
        found[f"missing {prefix}"] = [
            f"{row.identifier}: no {' and no '.join(_absent(row))}; {sentence(row.text)}"
            for row in rows
            if coverage.state(row) is State.MISSING
        ]
    found["stale, run `python tools/coverage.py --write`"] = stale
    for name, faults in found.items():
        for fault in faults:
            print(f"{name}: {fault}")
    failed = sum(bool(faults) for faults in found.values())
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _absent(row: Row) -> list[str]:
    return [word for word, there in (("implementation", row.has_code), ("test", row.has_test)) if not there]


def show(coverage: Coverage, identifiers: Sequence[str]) -> int:
    for identifier in identifiers:
        if identifier not in coverage.rows:
            print(f"coverage: there is no rule {identifier}", file=sys.stderr)
            return 2
        row = coverage.rows[identifier]
        print(f"{identifier}: {row.text}\n  {note(coverage, row)}")
        for word, evidence in (("implemented", row.implemented), ("tested", row.tested)):
            for one in evidence:
                print(f"  {word if one.counts else f'({word})'}: {one.where} {one.label if '/' in one.label else ''}")
    return 0


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help="show these rules only")
    parser.add_argument("--write", action="store_true", help="write the table first")
    arguments = parser.parse_args(words)
    coverage = Coverage()
    if arguments.ids:
        return show(coverage, arguments.ids)
    if arguments.write:
        TABLE.write_text(rendered(coverage), encoding="utf-8")
    return check(coverage)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
