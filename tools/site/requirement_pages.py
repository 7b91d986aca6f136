"""The index of requirements, and a page per prefix that says of each who checks it and where it is implemented."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from page_text import Linker

from citations import Check, checks, sources
from coverage import Coverage, Evidence, State, note

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "conformance/protocol3_conformance/scenarios"
Requirement = Mapping[str, Any]
BODY = "<div data-search-exclude markdown>"  # an ID is found here, words in the chapters
FRONT = "---\nhide: [toc]\nsearch: {exclude: true}\n---\n"  # the chapters are searched
INTRODUCTION = """\
Every requirement of the chapters. Its ID leads to what checks and implements it, its chapter to its place."""
CODE = re.compile(r"`([^`]+)`")
FILTERS = ("level", "role", "profiles", "observed", "chapter")


def pages(
    linker: Linker, requirements: Sequence[Requirement], mutants: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Path and text of every page, the index first. `mutants`: by ID those that prove that its checks see a breach."""
    yield "requirements/index.md", _index(requirements)
    cited: dict[str, list[Check]] = {}
    for path in sources(SCENARIOS):
        for check in checks(ROOT, path):
            for identifier in check.cites:
                cited.setdefault(identifier, []).append(check)
    coverage = Coverage()
    prefixes: dict[str, list[Requirement]] = {}
    for one in requirements:
        prefixes.setdefault(one["id"].partition("-")[0], []).append(one)
    for prefix, members in prefixes.items():
        path = f"requirements/{prefix}.md"
        lines = ["---", "hide: [toc]", "---", f"# {prefix}", ""]
        for one in members:
            proofs = mutants.get(one["id"], [])
            lines += _requirement(linker, path, one, cited.get(one["id"], []), proofs, coverage)
        yield path, "\n".join(lines) + "\n"


def value(one: Requirement, name: str) -> str:
    """An attribute for readers; several profiles are joined."""
    return " or ".join(one[name]) if name == "profiles" else str(one[name])


def _requirement(
    linker: Linker,
    path: str,
    one: Requirement,
    checked: Sequence[Check],
    proofs: Sequence[str],
    coverage: Coverage,
) -> Iterator[str]:
    identifier = one["id"]
    stated = f"../spec/{one['chapter']}#{identifier}"
    yield from ["", f"## {identifier} {{#{identifier}}}", "", BODY, "", linker.text(path, one["text"]), ""]
    words = " · ".join(value(one, name) for name in FILTERS[:-1])
    title = one["chapter"].removesuffix(".md")
    yield from [f"*{words}*, in [{title}, {one['section'].replace('`', '')}]({stated})", "{: .attributes }", ""]
    if checked:
        yield "- checks of the suite: " + ", ".join(f"`{check.check_id}`" for check in checked)
    if proofs:
        found = ", ".join(f"`{name}`" for name in proofs)
        yield f"- [broken implementations](../docs/kill-matrix.md) that they caught: {found}"
    row = coverage.rows[identifier]
    for word, found in (("implemented in", row.implemented), ("tested by", row.tested)):
        if places := _places(found):
            yield f"- {word} {', '.join(places)}"
    state = note(coverage, row).replace(State.BOTH, "implemented and tested", 1)
    yield from [f"- the reference: {linker.text(path, state)}", "", "</div>"]


def _places(found: Sequence[Evidence]) -> list[str]:
    """Functions and files, each once; the checks of the suite stand in a line of their own."""
    places = dict.fromkeys(one.where for one in found if "protocol3_conformance/scenarios" not in one.where)
    return [f"`{place.removeprefix('reference/')}`" for place in _without_lines(places)]


def _without_lines(places: Mapping[str, None]) -> list[str]:
    named = {}
    for place in places:
        file, _, rest = place.partition(":")
        named[f"{file} {rest.partition(' ')[2]}".rstrip()] = None
    return list(named)


def _index(requirements: Sequence[Requirement]) -> str:
    """The table of all, filtered in the browser by assets/requirements.js."""
    lines = [f"{FRONT}# Requirements", "", INTRODUCTION, "", '<form id="requirement-filter">']
    lines.append('<input type="search" name="words" placeholder="ID or words">')
    for name in FILTERS:
        values = dict.fromkeys(value(one, name) for one in requirements)
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        lines.append(
            f'<select name="{name}" aria-label="{name}"><option value="">{name}: all</option>{options}</select>'
        )
    lines += ['<output name="count"></output>', "</form>", '<ul id="requirement-list">']
    for one in requirements:
        text = CODE.sub(r"<code>\1</code>", escape(one["text"]))
        data = " ".join(f'data-{name}="{escape(value(one, name))}"' for name in FILTERS)
        prefix, chapter = one["id"].partition("-")[0], one["chapter"].removesuffix(".md")
        lines.append(
            f'<li {data}><a href="{prefix}.html#{one["id"]}"><b>{one["id"]}</b></a> '
            f"<small>{' · '.join(value(one, attribute) for attribute in FILTERS[:-1])} · "
            f'<a href="../spec/{chapter}.html#{one["id"]}">{chapter}</a></small><br>{text}</li>'
        )
    return "\n".join([*lines, "</ul>", ""])
