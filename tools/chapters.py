"""Extract every numbered requirement of the chapters in `spec/` into `spec/protocol3_spec/requirements.json`.

    python tools/chapters.py [--check | --counts]

The chapters are the source and the file is never edited. `spec/README.md` says how a requirement is written: a bullet
or a table row that opens with a bold ID. What it binds, in which profile, and what can be seen of it stands in a line
at the head of its section, and after the ID where one requirement differs. `--check` writes nothing; it fails when the
file does not say what the chapters say; `--counts` says how many there are of each level, role, profile and kind of
observation.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPEC = Path(__file__).parent.parent / "spec"
OUTPUT = SPEC / "protocol3_spec" / "requirements.json"

#: The words an attribute may have. A requirement without one in force is an error.
WORDS: Mapping[str, frozenset[str]] = {
    "role": frozenset({"coordinator", "worker", "runtime", "client", "publisher", "everyone"}),
    "profile": frozenset(
        {
            "core", "workflows", "forks", "subworkflows", "discovery", "approvals", "operations", "completions",
            "dispatch-claims", "retention", "package-upload", "scope-binding", "virtual-time", "faults",
        }
    ),
    "observed": frozenset({"wire", "time", "process", "inside"}),
}  # fmt: skip

ID = r"[A-Z]{2,4}-(?:[A-Z]\d{2}|\d{2,3})"
BULLET = re.compile(rf"^- \*\*({ID})\*\*(?: \(([^)]*)\))? (.+)$")
ROW = re.compile(rf"^\| \*\*({ID})\*\*(?: \(([^)]*)\))? \|(.*)\|$")
OPENS = re.compile(rf"^\s*(?:[-*] |\| )?\**({ID})\**\b(?! to | and |,)")
ATTRIBUTES = re.compile(r"^\*((?:role|profile|observed): [^*]+)\*$")
HEADING = re.compile(r"^(#{1,4}) (.*)$")
OWNER = re.compile(r"\(= ([^)]*)\)")
CELL = re.compile(r"(?<!\\)\|")
SHOULD = re.compile(r"\b(SHOULD(?: NOT)?|MAY|RECOMMENDED|OPTIONAL)\b")
MUST = re.compile(r"\b(?:MUST|SHALL|REQUIRED)\b")
INFORMATIVE = re.compile(r"^\*Informative\.\*")


class Fault(Exception):
    """A chapter that does not keep the rules of its own writing; the text names the file and the line."""


@dataclass
class Section:
    """Where a requirement stands: the chapter, the nearest heading, and the attributes in force there."""

    chapter: str
    title: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


def attributes(words: str, place: str) -> dict[str, str]:
    """Read `role: worker · profile: core`, in any order; bare words are told apart by which list they are in.

    A rule of several profiles has them joined: `profile: virtual-time or faults`.
    """
    found: dict[str, str] = {}
    for one in re.split(r"\s*[·,]\s*", words.strip()):
        name, colon, value = one.partition(": ")
        if not colon:
            name, value = next((known for known, values in WORDS.items() if values.issuperset(several(one))), "?"), one
        if name not in WORDS or not WORDS[name].issuperset(several(value)):
            raise Fault(f"{place}: {one!r} is no attribute")
        if name != "profile" and len(several(value)) > 1:
            raise Fault(f"{place}: one {name}, not {value!r}")
        found[name] = value
    return found


def several(value: str) -> list[str]:
    """The profiles of a value."""
    return value.split(" or ")


def level(text: str) -> str:
    """The keyword of a sentence: a sentence without one, or with MUST in it, is a MUST."""
    if INFORMATIVE.match(text):
        return "INFORMATIVE"
    found = SHOULD.search(text)
    if found is None or MUST.search(text):
        return "MUST"
    return {"RECOMMENDED": "SHOULD", "OPTIONAL": "MAY"}.get(found[1], found[1].split()[0])


def continuation(lines: list[str]) -> Iterator[str]:
    """The indented lines that go on after a bullet."""
    for line in lines:
        if not line.startswith("  "):
            return
        yield line.strip()


def requirement(section: Section, found: re.Match[str], text: str, place: str) -> dict[str, object]:
    """One entry of the file."""
    in_force = section.attributes | (attributes(found[2], place) if found[2] else {})
    if lacking := [name for name in WORDS if name not in in_force]:
        raise Fault(f"{place}: {found[1]} has no {', '.join(lacking)}; put a line of attributes below its heading")
    return {
        "id": found[1],
        "chapter": section.chapter,
        "section": section.title,
        "level": level(text),
        "role": in_force["role"],
        "profiles": several(in_force["profile"]),
        "observed": in_force["observed"],
        "owned_by": [one.strip() for match in OWNER.findall(text) for one in match.split(",")],
        "text": text,
    }


def chapter(path: Path) -> Iterator[dict[str, object]]:
    """The requirements of one chapter, in their order. A heading of a level ends what was said at that level."""
    section = Section(path.name)
    nested: dict[int, dict[str, str]] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        place = f"{path.name}:{number}"
        if heading := HEADING.match(line):
            depth = len(heading[1])
            nested = {above: said for above, said in nested.items() if above < depth} | {depth: {}}
            section.title = heading[2]
        elif said := ATTRIBUTES.match(line):
            nested[max(nested)] = attributes(said[1], place)
        elif found := BULLET.match(line):
            text = " ".join([found[3], *continuation(lines[number:])])
            section.attributes = _merged(nested)
            yield requirement(section, found, text, place)
        elif found := ROW.match(line):
            cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(found[3])]
            section.attributes = _merged(nested)
            yield requirement(section, found, " | ".join(cell for cell in cells if cell), place)
        elif opens := OPENS.match(line):
            raise Fault(f"{place}: {opens[1]} opens a line and is written like no requirement")


def _merged(nested: Mapping[int, dict[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for depth in sorted(nested):
        merged |= nested[depth]
    return merged


def extract(folder: Path) -> list[dict[str, object]]:
    """All requirements of the chapters (NN-*.md); one ID twice, or an owner that does not exist, is an error."""
    found: dict[str, dict[str, object]] = {}
    for path in sorted(folder.glob("[0-9][0-9]-*.md")):
        for one in chapter(path):
            if one["id"] in found:
                raise Fault(f"{path.name}: {one['id']} is stated twice, first in {found[str(one['id'])]['chapter']}")
            found[str(one["id"])] = one
    if not found:
        raise Fault(f"{folder}: no chapters (NN-*.md) with requirements")
    for one in found.values():
        named: list[str] = one["owned_by"]  # type: ignore[assignment]  # a list by `requirement`
        one["owned_by"] = [owner for words in named for owner in owners(words, found, f"{one['chapter']}: {one['id']}")]
    return list(found.values())


def owners(words: str, known: Collection[str], place: str) -> list[str]:
    """The IDs of `DLV-031`, or of `DLV-031 to DLV-035`, as far as they exist; the ends must."""
    first, _, last = words.partition(" to ")
    last = last or first
    if missing := {first, last} - {*known}:
        raise Fault(f"{place} is said to be {', '.join(sorted(missing))}, which does not exist")
    prefix = first.partition("-")[0]
    return sorted(one for one in known if one.partition("-")[0] == prefix and first <= one <= last)


def counts(requirements: Iterable[Mapping[str, Any]]) -> str:
    """One line for each kind of attribute. A rule of several profiles counts in each."""
    rows = list(requirements)
    lines = [f"{len(rows)} requirements"]
    for name in ("level", "role", "profiles", "observed"):
        values = (row[name] if isinstance(row[name], list) else [row[name]] for row in rows)
        counted = Counter(one for value in values for one in value).most_common()
        lines.append(f"{name}: " + ", ".join(f"{value} {number}" for value, number in counted))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--counts", action="store_true", help="say how many requirements there are of each kind")
    parser.add_argument("--chapters", type=Path, default=SPEC, help="folder of the chapters")
    arguments = parser.parse_args()
    try:
        requirements = extract(arguments.chapters)
    except Fault as fault:
        sys.stdout.write(f"{fault}\n")
        return 1
    if arguments.counts:
        sys.stdout.write(counts(requirements) + "\n")
        return 0
    rendered = json.dumps({"format": 2, "requirements": requirements}, indent=1, ensure_ascii=False) + "\n"
    if arguments.check:
        same = OUTPUT.exists() and OUTPUT.read_text(encoding="utf-8") == rendered
        count = f"{len(requirements)} requirements, up to date" if same else "differs: run tools/chapters.py"
        sys.stdout.write(f"{OUTPUT.name}: {count}\n")
        return 0 if same else 1
    OUTPUT.write_text(rendered, encoding="utf-8")
    sys.stdout.write(f"{len(requirements)} requirements\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
