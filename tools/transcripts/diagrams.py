"""The sequence diagrams of a chapter, held against the transcripts that are linked below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from transcripts.form import Exchange

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\.\./fixtures/transcripts/([a-z-]+)\.json\)")
PARTICIPANT = re.compile(r"^ *participant (\w+) as (.+)$", re.MULTILINE)
REQUEST = re.compile(r"^ *(\w+)->>O: (?:(GET|POST) (/[\w/-]+)|(the same bytes again))")
REPLY = re.compile(r"^ *O--(>>|x)(\w+): (\d{3})?")


class Line(NamedTuple):
    """A request of a diagram; a repeated one has neither method nor path."""

    sender: str
    method: str | None
    path: str | None
    status: int | None


def linked(chapter: str) -> Iterator[tuple[str | None, str]]:
    """Each diagram of the chapter, after the name of the transcript that is linked before the next one begins."""
    found = list(DIAGRAM.finditer(chapter))
    ends = [*(one.start() for one in found[1:]), len(chapter)]
    for one, end in zip(found, ends, strict=True):
        link = LINK.search(chapter, one.end(), end)
        yield link and link[1], one[1]


def requests(diagram: str) -> list[Line]:
    """What is sent to the coordinator. A reply is 200 unless its arrow says another status, or is crossed out."""
    names = dict(PARTICIPANT.findall(diagram))
    lines: list[Line] = []
    for text in diagram.splitlines():
        if sent := REQUEST.match(text):
            lines.append(Line(names[sent[1]], sent[2], sent[3], 200))
        elif (reply := REPLY.match(text)) and lines:
            lines[-1] = lines[-1]._replace(status=None if reply[1] == "x" else int(reply[3] or 200))
    return lines


def differences(diagram: str, exchanges: list[Exchange]) -> list[str]:
    """What the diagram shows and the transcript has not, in this order; and statuses beside 200 that it does not show.

    A transcript may have more exchanges than the diagram.
    """
    found: list[str] = []
    left = list(enumerate(exchanges, 1))
    last: Exchange = {}
    for line in requests(diagram):
        wanted = line if line.path else line._replace(method=last.get("method"), path=last.get("path"))
        while left and not _is(left[0][1], wanted):
            found += _unforeseen(*left.pop(0))
        if not left:
            return [*found, f"no exchange for {line.sender}: {wanted.method} {wanted.path}"]
        number, one = left.pop(0)
        if one["status"] != line.status:
            found.append(f"{number}: status {one['status']}, {line.status} in the diagram")
        if line.path is None and one["request"] != last["request"]:
            found.append(f"{number}: another request than the one it repeats")
        last = one
    return found + [fault for rest in left for fault in _unforeseen(*rest)]


def _is(one: Exchange, line: Line) -> bool:
    return (one["from"], one["method"], one["path"]) == (line.sender, line.method, line.path)


def _unforeseen(number: int, one: Exchange) -> list[str]:
    return [] if one["status"] == 200 else [f"{number}: status {one['status']}, no diagram says so"]
