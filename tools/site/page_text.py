"""Pages of the repository as pages of the site: links of IDs and limits, and what the generator's Markdown wants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from posixpath import dirname, relpath

from chapters import BULLET, ID, ROW
from protocol3_spec import limits

COMMENT = re.compile(r"^<!--.*?-->$", re.MULTILINE)
ATTRIBUTES = re.compile(r"^(\*(?:role|profile|observed): .+\*)$")
FENCE = re.compile(r"^(\s*)```(\w*)")
ITEM = re.compile(r"^(\s*)(?:[-*]|\d+\.) ")
SCHEMA = re.compile(r"\]\((?:\.\./)*(?:spec/)?protocol3_spec/schemas/([\w-]+)\.json\)")
#: What is left as it is (code, links, tags), or a word that becomes a link.
WORD = re.compile(rf"(?P<kept>``.+?``|`[^`]+`|\[[^\]]*\]\([^)]*\)|<[^>]+>)|(?<![\w-])(?P<id>{ID})(?![\w-])")
LIMIT_ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]+)` \|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linker:
    """Where a requirement is stated: the file of its chapter by ID. Paths are those below the site's root."""

    chapters: Mapping[str, str]

    def page(self, path: str, text: str) -> str:
        """The Markdown of a page of the repository for the generator. `path`: the page's own."""
        text = SCHEMA.sub(lambda found: f"]({relative(path, f'schemas/{found[1]}.md')})", COMMENT.sub("", text))
        return "\n".join(self._lines(path, _relaid(text.splitlines()))) + "\n"

    def _lines(self, path: str, lines: Iterator[tuple[str, bool]]) -> Iterator[str]:
        drawing = False
        for line, code in lines:
            if line == "```mermaid":
                yield '<div class="diagram" markdown>'
                yield ""
                yield line
                drawing = True
            elif drawing and line == "```":
                yield line
                yield ""
                yield "</div>"
                drawing = False
            elif code or line.startswith("#"):
                yield line
            elif ATTRIBUTES.match(line):
                yield f"{line}\n{{: .attributes }}"
            elif path.startswith("spec/") and (found := BULLET.match(line) or ROW.match(line)):
                before, after = line.split(f"**{found[1]}**", 1)
                evidence = relative(path, f"requirements/{found[1].partition('-')[0]}.md#{found[1]}")
                yield f"{before}[{found[1]}]({evidence}){{#{found[1]} .requirement}}{self.text(path, after)}"
            elif path == "spec/40-limits.md" and (row := LIMIT_ROW.match(line)):
                yield f"| <span id='{row[1]}'></span>`{row[1]}` |{self.text(path, line[row.end() :])}"
            else:
                yield self.text(path, line)

    def text(self, path: str, text: str) -> str:
        """Prose with every requirement ID and every limit as a link."""

        def linked(found: re.Match[str]) -> str:
            if found["kept"] is not None:
                name = found["kept"].strip("`")
                at = relative(path, f"spec/40-limits.md#{name}")
                return f"[{found['kept']}]({at})" if name in limits() else found[0]
            if found["id"] not in self.chapters:
                return found[0]
            stated = relative(path, f"spec/{self.chapters[found['id']]}#{found['id']}")
            return f"[{found['id']}]({stated})"

        return WORD.sub(linked, text)


def _relaid(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Lines with list items indented by four, as this Markdown wants, and whether each is code.

    A list may follow a paragraph without a blank line for everybody else; here it needs one.
    """
    fence: tuple[int, int] | None = None
    before, in_list = "", False
    for line in lines:
        width = len(line) - len(line.lstrip())
        if fence is not None:
            yield " " * fence[1] + line[min(fence[0], width) :], True
            fence = None if line.strip() == "```" else fence
            before = line
            continue
        if opened := FENCE.match(line):
            fence = (width, _indent(width))
        item = ITEM.match(line)
        if item and width == 0 and before.strip() and not in_list:
            yield "", False
        if line.strip() and width == 0:
            in_list = bool(item)
        yield " " * _indent(width) + line.lstrip(), bool(opened)
        before = line


def _indent(width: int) -> int:
    return 0 if width < 2 else 4 if width < 4 else 8 if width < 7 else 12


def relative(path: str, target: str) -> str:
    """The way from one page to another."""
    file, mark, anchor = target.partition("#")
    return relpath(file, dirname(path) or ".") + mark + anchor
