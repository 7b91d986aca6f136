"""What the documents name exists: links and anchors, requirement IDs, limits, schemas; and their JSON is strict JSON.

    python tools/spec_links.py [FILE ...]

Without files: README, `docs/`, `spec/` and every README of the fixtures. Addresses outside of the repository are not
looked at, nor tables that another tool checks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from chapters import BULLET, ROW
from citations import Catalogue
from protocol3.contract.strict_json import InvalidJson, decode
from protocol3_spec import limits, schemas

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)"')
LIMIT = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
SHOWN = re.compile(r"^<!-- schema: (.+?) -->$", re.MULTILINE)

#: Words in the form of a limit's name that are variables of an environment.
VARIABLES = ("LEDGENCE_", "OTEL_", "PROTOCOL3_")
GENERATED = ROOT / "docs/coverage-reference.md"


def documents() -> list[Path]:
    found = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("spec/*.md"), *ROOT.glob("fixtures/**/README.md")]
    return sorted(set(found) - {GENERATED})


@cache
def catalogue() -> Catalogue:
    """The IDs that the chapters state."""
    lines = [line for path in chapter_files() for line in path.read_text(encoding="utf-8").splitlines()]
    return Catalogue([found[1] for line in lines if (found := BULLET.match(line) or ROW.match(line))])


def chapter_files() -> list[Path]:
    return sorted((ROOT / "spec").glob("[0-9][0-9]-*.md"))


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a document: its own, and those that viewers make of headings."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found = [*ANCHOR.findall(text)]
    for heading in HEADING.findall(text):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(next(one for one in _numbered(slug) if one not in found))
    return frozenset(found)


def _numbered(slug: str) -> Iterator[str]:
    yield slug
    for number in range(1, 1000):
        yield f"{slug}-{number}"


def faults(path: Path) -> dict[str, list[str]]:
    """What is wrong with a document, by what was looked at."""
    text = path.read_text(encoding="utf-8")
    prose = FENCE.sub("", text)
    within = path.is_relative_to(ROOT / "spec")
    return {
        "links": [*links(path, CODE.sub("", prose))],
        "IDs": [*unknown_ids(prose)],
        "limits": [name for name in LIMIT.findall(prose) if unknown_limit(name)] if within else [],
        "schemas": [name for name in SHOWN.findall(text) if name not in schemas()],
        "JSON": [*broken_json(text)],
    }


def links(path: Path, prose: str) -> Iterator[str]:
    for target in LINK.findall(prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists():
            yield f"{target}: there is no such file"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            yield f"{target}: there is no such place"


def unknown_ids(prose: str) -> Iterator[str]:
    known = catalogue()
    yield from dict.fromkeys(one.identifier for one in known.named(prose) if one.identifier not in known.known)


def unknown_limit(name: str) -> bool:
    return name not in limits() and not name.startswith(VARIABLES)


def broken_json(text: str) -> Iterator[str]:
    """Blocks marked as JSON, of one document each, that a strict decoder refuses."""
    for language, block in FENCE.findall(text):
        if language == "json":
            try:
                decode(block.encode())
            except InvalidJson as refused:
                yield f"{refused}: {block[:60]!r}"


def main(words: list[str]) -> int:
    passed = failed = 0
    for path in [Path(word).resolve() for word in words] or documents():
        for kind, found in faults(path).items():
            for fault in found:
                print(f"{path.relative_to(ROOT)}: {kind}: {fault}")
            passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
