"""Extract every numbered requirement of the contract documents into `spec/protocol3_spec/requirements.json`.

    python tools/extract_requirements.py CONTRACT_DIR [--check]

A requirement is a table row whose first cell is an ID, a bullet that opens with a bold ID, or a paragraph that opens
with `ID:`. The sentence is kept as written; only what surrounds it (table pipes, markers like `[slow]`) becomes fields.
`--check` writes nothing and fails when the file does not say what the documents say.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "spec" / "protocol3_spec" / "requirements.json"

ID = r"[A-Z]{2,4}-(?:[A-Z]\d{2}|\d{2,3})"
ROW = re.compile(rf"^\| ({ID}) \|(.*)\|$")
BULLET = re.compile(rf"^(?:- )?\*\*({ID})\*\*:? (.*)$")
PARAGRAPH = re.compile(rf"^(?:- )?({ID}): (.*)$")
HEADING = re.compile(r"^(#{2,4}) (.*)$")
MARKERS = re.compile(r"^\s*`\[(opt|slow|worker)\]`")
OWNER = re.compile(r"\(= ([^)]*)\)")
CELL = re.compile(r"(?<!\\)\|")
LEVEL = re.compile(r"^`?(MAY|SHOULD)`?\b")
NO_LEVEL = re.compile(r"^\*Informative\*|^`?UNSURE")


def rules(document: str) -> Iterator[tuple[str, str, str]]:
    """Yield (section title, id, raw sentence), joining the indented lines that continue a bullet."""
    section = ""
    lines = document.splitlines()
    for number, line in enumerate(lines):
        if heading := HEADING.match(line):
            section = heading[2]
        elif found := ROW.match(line):
            cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(found[2])]
            yield section, found[1], " | ".join(cell for cell in cells if cell)
        elif found := BULLET.match(line) or PARAGRAPH.match(line):
            yield section, found[1], " ".join([found[2], *continuation(lines[number + 1 :])])


def continuation(lines: list[str]) -> Iterator[str]:
    """The lines that belong to the bullet or paragraph above: indented ones, and numbered or dashed items below it."""
    for line in lines:
        if not line.startswith("  "):
            return
        yield line.strip()


def requirement(part: str, section: str, identifier: str, raw: str) -> dict[str, object]:
    markers = []
    while marker := MARKERS.match(raw):
        markers.append(marker[1])
        raw = raw[marker.end() :]
    text = raw.strip()
    owners = [owner.strip() for match in OWNER.findall(text) for owner in match.split(",")]
    level = found[1] if (found := LEVEL.match(text)) else "INFORMATIVE" if NO_LEVEL.match(text) else "MUST"
    return {
        "id": identifier,
        "part": part,
        "section": section,
        "level": level,
        "markers": markers,
        "owned_by": owners,
        "text": text,
    }


def extract(contract: Path) -> list[dict[str, object]]:
    """All requirements in document order; the same ID twice is an error."""
    found: dict[str, dict[str, object]] = {}
    for document in sorted(contract.glob("[0-9][0-9]-*.md")):
        for section, identifier, raw in rules(document.read_text(encoding="utf-8")):
            if identifier in found:
                raise SystemExit(f"{document.name}: {identifier} is stated twice")
            found[identifier] = requirement(document.name[:2], section, identifier, raw)
    if not found:
        raise SystemExit(f"{contract}: no contract documents (NN-*.md) with requirements found")
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contract", type=Path, help="folder with the contract documents")
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    requirements = extract(arguments.contract)
    rendered = json.dumps({"format": 1, "requirements": requirements}, indent=1, ensure_ascii=False) + "\n"
    if arguments.check:
        same = OUTPUT.exists() and OUTPUT.read_text(encoding="utf-8") == rendered
        sys.stdout.write("up to date\n" if same else f"{OUTPUT.name} differs: run tools/extract_requirements.py\n")
        return 0 if same else 1
    OUTPUT.write_text(rendered, encoding="utf-8")
    sys.stdout.write(f"{len(requirements)} requirements\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
