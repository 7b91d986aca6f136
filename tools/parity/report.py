"""What a run says, for people and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import dataclass

from parity.bench import Result

WIDTH = 400


@dataclass(frozen=True)
class Summary:
    """`apart` are differences of API and types, as sentences; `unused` are explanations that no case needed."""

    results: dict[str, Result]
    apart: list[str]
    unused: list[str]

    @property
    def unexplained(self) -> list[Result]:
        return [result for result in self.results.values() if not result.accepted]

    @property
    def passed(self) -> bool:
        return not (self.unexplained or self.apart or self.unused)

    def text(self) -> str:
        """The closing line is counted by `./dev`."""
        lines = [side_by_side(result) for result in self.unexplained]
        lines += [f"not equal: {sentence}" for sentence in self.apart]
        lines += [f"explained.toml: no case needs {entry}" for entry in self.unused]
        explained = [result for result in self.results.values() if not result.equal and result.accepted]
        counts = Counter((entry.id, entry.reason) for result in explained for entry in result.reasons or ())
        lines += [f"{count} explained by {name}: {reason}" for (name, reason), count in counts.items()]
        frames = sum(len(heard.lines) for result in self.results.values() for heard in result.heard.values())
        generated = sum(name.startswith("generated/") for name in self.results)
        failed = len(self.unexplained)
        lines.append(
            f"{len(self.results)} cases compared ({len(self.results) - generated} written, {generated} generated), "
            f"{frames} frames; differences: {failed} unexplained, {len(explained)} explained"
        )
        more = len(self.apart) + len(self.unused)
        lines.append(f"{len(self.results) - failed} passed, {failed + more} failed")
        return "\n".join(lines)

    def as_json(self) -> str:
        explained = {
            name: [entry.id for entry in result.reasons]
            for name, result in self.results.items()
            if result.reasons and not result.equal
        }
        return json.dumps(
            {
                "cases": len(self.results),
                "unexplained": [result.as_json() for result in self.unexplained],
                "explained": explained,
                "surface": self.apart,
                "unused_explanations": self.unused,
            }
        )


def side_by_side(result: Result) -> str:
    """The handler's source, every frame of every runtime, and the places that differ."""
    lines = [f"== {result.case.name}" + (" (only behind other cases)" if result.together else "")]
    lines += [textwrap.indent(textwrap.dedent(result.case.source()), "    ")]
    for step in result.case.steps:
        if step.answers:
            lines.append(f"  answers: {json.dumps(step.answers)}")
    for name, heard in result.heard.items():
        lines.append(f"-- {name}")
        lines += [f"   {_short(line)}" for line in heard.lines]
        lines.append(f"   end: {heard.end}; stderr: {heard.marks}")
    for release, items in result.found.items():
        for item in items:
            lines.append(f"   {release} differs at {item.path}: ours {_short(item.ours)}, theirs {_short(item.theirs)}")
    if result.reasons:
        lines += [f"   explained by {entry.id}: {entry.reason}" for entry in result.reasons]
    return "\n".join(lines)


def _short(text: str) -> str:
    text = text.rstrip("\n")
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} ... ({len(text)} characters)"
