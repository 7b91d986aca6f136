"""Where requirement IDs are cited: docstrings, comments and strings of Python files, placed by their syntax tree.

Standard library only. `tools/coverage.py` makes the table out of this.
"""

import ast
import io
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIXES = (
    *("JSON", "TXT", "HTTP", "ERR", "CLI", "CMP", "RET", "TRC", "TASK", "DISC", "DLV", "WF", "ACT", "LOC", "DEC"),
    *("CHD", "FRK", "EVT", "TMR", "DRN", "RCV", "APR", "LIM", "RACE", "REQ", "RUN", "WRK", "HLP", "PKG", "TST"),
)  # fmt: skip
NUMBER = r"(?:[ABC]\d{2}|\d{2,3})(?!\d)"
SPAN = r"\s*(?:\.{2,3}|…|\u2013|\bto\b)\s*"
FURTHER = rf"{SPAN}|\s*/\s*|\s*,\s*(?:and\s+)?|\s+and\s+"
# One ID, then what continues it: a range, or bare numbers of the same prefix. `HTTP-013, 017, 018` are three IDs.
CITATION = re.compile(
    rf"(?<![\w-])(?P<prefix>{'|'.join(PREFIXES)})-(?P<first>{NUMBER})"
    rf"(?P<rest>(?:(?:{SPAN})(?:(?P=prefix)-)?{NUMBER}|(?:{FURTHER}){NUMBER})*)"
)
CONTINUED = re.compile(rf"(?P<joint>{FURTHER})(?:[A-Z]+-)?(?P<number>{NUMBER})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One ID out of a text. `width`: how many IDs the range spans it came from, 1 when it was written out."""

    identifier: str
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One citation. `holder`: the function, class or constant it stands at, empty for the module itself."""

    path: str
    line: int
    holder: str
    identifier: str
    width: int
    module_lines: int


class Catalogue:
    """The known IDs in order, for the expansion of ranges."""

    def __init__(self, identifiers: Sequence[str]) -> None:
        self.known = frozenset(identifiers)
        self.numbers: dict[str, list[str]] = {}
        for identifier in identifiers:
            prefix, _, number = identifier.partition("-")
            self.numbers.setdefault(prefix, []).append(number)
        for numbers in self.numbers.values():
            numbers.sort()

    def between(self, prefix: str, first: str, last: str) -> list[str]:
        """The existing IDs from first to last. The bounds are given even when no such ID exists, to be reported."""
        numbers = self.numbers.get(prefix, [])
        inner = {n for n in numbers[bisect_left(numbers, first) :] if n <= last}
        return [f"{prefix}-{number}" for number in sorted(inner | {first, last})]

    def named(self, text: str) -> Iterator[Named]:
        """Every ID that the text names, ranges written out; a number of another length is no ID."""
        for found in CITATION.finditer(text):
            prefix, last = found["prefix"], found["first"]
            pending = [Named(identifier=f"{prefix}-{last}", width=1)]
            for further in CONTINUED.finditer(found["rest"]):
                number = further["number"]
                if len(number) != len(last):
                    break
                if re.fullmatch(SPAN, further["joint"]):
                    pending.pop()
                    spanned = self.between(prefix, last, number)
                    pending += [Named(identifier=one, width=len(spanned)) for one in spanned]
                else:
                    pending.append(Named(identifier=f"{prefix}-{number}", width=1))
                last = number
            yield from pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A piece of a file that may cite: a docstring, a string, or comment lines that follow each other."""

    line: int
    holder: str
    value: str


class Module:
    """One Python file: who holds which line, and its texts."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.lines = self.source.count("\n")
        self.spans: list[tuple[int, int, str]] = []
        self._collect(self.tree, "")

    def _collect(self, node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = outer
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    name = f"{outer}.{child.name}" if outer else child.name
                    first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                    self.spans.append((first, child.end_lineno or first, name))
                case ast.Assign(targets=[ast.Name(id=target), *_]) | ast.AnnAssign(target=ast.Name(id=target)):
                    name = f"{outer}.{target}" if outer else target
                    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                        self.spans.append((child.lineno, child.end_lineno or child.lineno, name))
            self._collect(child, name)

    def holder(self, line: int, *, below: int | None = None) -> str:
        """The innermost function, class or constant around a line, else the one that begins at `below`."""
        around = [span for span in self.spans if span[0] <= line <= span[1]]
        if below is not None and (begins := [span for span in self.spans if span[0] == below]):
            return max(begins, key=lambda span: len(span[2]))[2]
        return max(around, key=lambda span: (span[0], -span[1]))[2] if around else ""

    def docstrings(self) -> Iterator[Text]:
        """Strings that stand for themselves: docstrings of modules, classes, functions, and of constants above them."""
        for block in ast.walk(self.tree):
            body = getattr(block, "body", None)
            for before, node in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
                if isinstance(node, ast.Expr) and (text := _string(node.value)) is not None:
                    constant = isinstance(before, ast.Assign | ast.AnnAssign)
                    holder = self.holder(before.lineno if constant else node.lineno)
                    yield Text(line=node.lineno, holder=holder, value=text)

    def strings(self) -> Iterator[Text]:
        """All other strings."""
        alone = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(self.tree):
            if id(node) not in alone and (text := _string(node)) is not None:
                assert isinstance(node, ast.Constant)
                yield Text(line=node.lineno, holder=self.holder(node.lineno), value=text)

    def comments(self) -> Iterator[Text]:
        """Comments; lines of their own that follow each other are one text and belong to what they stand above."""
        block: list[tuple[int, str]] = []
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT:
                line, text = token.start[0], token.string.lstrip("# ")
                if token.line.lstrip().startswith("#"):
                    block.append((line, text))
                else:
                    yield Text(line=line, holder=self.holder(line), value=text)
            elif block and token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                last = block[-1][0]
                holder = self.holder(last, below=token.start[0] if token.start[0] == last + 1 else None)
                yield Text(line=block[0][0], holder=holder or "(comment)", value="\n".join(one for _, one in block))
                block = []


def _string(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def sources(folder: Path, *, but: Path | None = None) -> list[Path]:
    """The Python files below a folder, in order, without those of one folder in it."""
    found = [path for path in folder.rglob("*.py") if "__pycache__" not in path.parts]
    return sorted(path for path in found if but is None or not path.is_relative_to(but))


def places(catalogue: Catalogue, root: Path, path: Path, *, strings: bool = False) -> list[Place]:
    """Every citation in one file: docstrings and comments, with `strings` other strings too."""
    module = Module(path)
    texts = [*module.docstrings(), *module.comments(), *(module.strings() if strings else ())]
    return [
        Place(
            path=path.relative_to(root).as_posix(),
            line=text.line,
            holder=text.holder,
            identifier=named.identifier,
            width=named.width,
            module_lines=module.lines,
        )
        for text in texts
        for named in catalogue.named(text.value)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check of the suite and what it says it proves."""

    check_id: str
    path: str
    line: int
    cites: tuple[str, ...]


def checks(root: Path, path: Path) -> Iterator[Check]:
    """The scenarios of one module: `@scenario("subject/what", cites=[...])`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for call in getattr(node, "decorator_list", []):
            match call:
                case ast.Call(func=ast.Name(id="scenario"), args=[ast.Constant(value=str(check_id)), *_]):
                    given: Mapping[str | None, ast.expr] = {word.arg: word.value for word in call.keywords}
                    cites = given.get("cites")
                    elements = cites.elts if isinstance(cites, ast.List) else []
                    yield Check(
                        check_id=check_id,
                        path=path.relative_to(root).as_posix(),
                        line=call.lineno,
                        cites=tuple(text for one in elements if (text := _string(one)) is not None),
                    )
