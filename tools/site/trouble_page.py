"""What real engines got wrong, and which check looks for it: a page made of `troubles.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from protocol3_conformance import catalogue
from protocol3_conformance.scenario import Scenario
from protocol3_conformance.troubles import SOURCE, Trouble, troubles

PATH = "troubles/index.md"
HEAD = """\
# What real engines got wrong

Reports of users of other engines for durable execution, queues and workflows, each in one line of our own words with
its source, and the checks of the suite that play what happened there. Made of
`conformance/protocol3_conformance/troubles.toml`; `python tools/conformance_tables.py troubles` verifies it.
"""


def page() -> tuple[str, str]:
    """Path and text of the page."""
    known = catalogue.everything()
    return PATH, "\n".join([HEAD, *(line for row in troubles() for line in _row(row, known))]) + "\n"


def _row(row: Trouble, known: dict[str, Scenario]) -> Iterator[str]:
    yield f"## {row.number}. {_text(row.report)} {{#trouble-{row.number}}}"
    yield ""
    yield f"*Seen at* {', '.join(map(_source, row.sources))}."
    yield ""
    if row.excluded:
        yield f"Excluded: {_text(row.excluded)}"
    for name in row.checks:
        check = known[name]
        yield f"- `{name}` ({check.role}): {_text(check.title)}"
    yield ""


def _source(source: str) -> str:
    assert SOURCE.fullmatch(source)
    return f"[{source}](https://github.com/{source.replace('#', '/issues/')})"


def _text(text: str) -> str:
    """Words as they are: stars and brackets mean nothing in them, back-quoted words are code."""
    return re.sub(
        r"`[^`]*`|[*_\[\]]", lambda found: found[0] if len(found[0]) > 1 else f"\\{found[0]}", escape(text, quote=False)
    )
