"""The mutants as their TOML files describe them, and what is wrong with the descriptions."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol3_conformance.requirements import requirements

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "conformance" / "mutants"
NO_MUTANT = "unproven.toml"
RECORD = "random.toml"
"""The two TOML files of the folder that hold no mutants."""

ROLES = ("coordinator", "worker", "runtime")
KINDS = (
    *("limit", "identity", "replay", "race", "fencing", "clock", "isolation"),
    *("drain", "validation", "wire", "recovery", "durability"),
)
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SYSTEM = re.compile(r"[\w.-]+/[\w.-]+#\d+")
MEMBERS = frozenset({"id", "sentence", "kind", "breaks", "seen", "of", "processes", "file", "old", "new", "edits"})


class BadEntry(ValueError):
    """A file or an entry is not as conformance/mutants/README.md says; the message names it."""


class BadEdit(ValueError):
    """An edit does not fit the file it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """`old`, which occurs once in `file`, becomes `new`. `file` is below reference/protocol3, or protocol3_spec/…"""

    file: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """The file from the root of the repository."""
        return f"spec/{self.file}" if self.file.startswith("protocol3_spec/") else f"reference/protocol3/{self.file}"

    @property
    def copied(self) -> str:
        """The file from the folder that holds the copied packages."""
        return self.path.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One broken implementation, or with `of` its harmless twin, which has kind and broken rules of that one.

    `processes` of a coordinator share its database and are spoken to in turn.
    """

    id: str
    sentence: str
    role: str
    kind: str
    breaks: tuple[str, ...]
    edits: tuple[Edit, ...]
    source: str
    seen: str | None = None
    of: str | None = None
    processes: int = 1

    @property
    def twin(self) -> bool:
        return self.of is not None

    @property
    def digest(self) -> str:
        """Of everything that its verdict depends on in its description."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def patched(mutant: Mutant, root: Path = ROOT) -> dict[str, str]:
    """The edited files by their path in the copy. Raises BadEdit."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        path = root / edit.path
        if not path.is_file():
            raise BadEdit(f"there is no file {edit.path}")
        text = texts.get(edit.copied) or path.read_text(encoding="utf-8")
        if (count := text.count(edit.old)) != 1:
            raise BadEdit(f"{edit.path} has the old text {count} times: {edit.old.strip().partition(chr(10))[0]!r}")
        texts[edit.copied] = text.replace(edit.old, edit.new)
    return texts


def read(home: Path = HOME) -> list[Mutant]:
    """All mutants, by file and in its order. Raises BadEntry."""
    entries: list[dict[str, Any]] = []
    for path in sorted(home.glob("*.toml")):
        if path.name not in (NO_MUTANT, RECORD):
            entries += ({**entry, "source": path.stem} for entry in _entries(path))
    known = {entry.get("id"): entry for entry in entries}
    return [_mutant(entry, known) for entry in entries]


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadEntry(f"{path.name}: {error}") from None
    if path.stem.partition("-")[0] not in ROLES:
        raise BadEntry(f"{path.name}: a name begins with {', '.join(ROLES)} or is {NO_MUTANT} or {RECORD}")
    if set(content) != {"mutant"}:
        raise BadEntry(f"{path.name}: nothing but [[mutant]] entries")
    entries: list[dict[str, Any]] = content["mutant"]
    return entries


def _mutant(entry: Mapping[str, Any], known: Mapping[Any, Mapping[str, Any]]) -> Mutant:
    name = f"{entry['source']}: {entry.get('id', 'an entry without id')}"
    if unknown := set(entry) - MEMBERS - {"source"}:
        raise BadEntry(f"{name}: unknown {', '.join(sorted(unknown))}")
    of = entry.get("of")
    broken = entry if of is None else known.get(of, {})
    if of is not None and (not broken or "of" in broken or {"kind", "breaks", "processes"} & set(entry)):
        raise BadEntry(f"{name}: `of` names a mutant that is no twin; kind, breaks and processes are that one's")
    alone = [entry] if "file" in entry else []
    try:
        return Mutant(
            id=entry["id"],
            sentence=entry["sentence"],
            role=str(entry["source"]).partition("-")[0],
            kind=broken["kind"],
            breaks=tuple(broken["breaks"]),
            edits=tuple(
                Edit(file=one["file"], old=one["old"], new=one["new"]) for one in [*alone, *entry.get("edits", [])]
            ),
            source=entry["source"],
            seen=entry.get("seen"),
            of=of,
            processes=broken.get("processes", 1),
        )
    except KeyError as error:
        raise BadEntry(f"{name}: lacks {error}") from None


def faults(mutants: Iterable[Mutant], root: Path = ROOT) -> Iterator[str]:
    """What is wrong with them, a line each."""
    mutants = list(mutants)
    for identifier, count in Counter(mutant.id for mutant in mutants).items():
        if count > 1:
            yield f"{identifier}: {count} mutants have this id"
    roles = {mutant.id: mutant.role for mutant in mutants}
    for mutant in mutants:
        yield from (f"{mutant.source}: {mutant.id}: {fault}" for fault in _faults(mutant, roles, root))
    yield from _repeated(mutants, root)


def _repeated(mutants: Iterable[Mutant], root: Path) -> Iterator[str]:
    """Pairs of which one proves nothing more: they come to the same text, wherever their anchors begin and end."""
    seen: dict[object, str] = {}
    for mutant in mutants:
        try:
            came_to = (mutant.processes, frozenset(patched(mutant, root).items()))
        except BadEdit:
            continue
        if mutant.edits and (first := seen.setdefault(came_to, mutant.id)) != mutant.id:
            yield f"{first} and {mutant.id} are the same edit"


def _faults(mutant: Mutant, roles: Mapping[str, str], root: Path) -> Iterator[str]:
    if not SLUG.fullmatch(mutant.id):
        yield "an id is words of a-z and 0-9 with hyphens"
    if mutant.of is not None and not mutant.id.startswith(f"{mutant.of}-twin"):
        yield f"the id of a twin begins with {mutant.of}-twin"
    if mutant.of is not None and roles[mutant.of] != mutant.role:
        yield f"{mutant.of} is of another role"
    if mutant.kind not in KINDS:
        yield f"kind {mutant.kind!r} is none of {', '.join(KINDS)}"
    if mutant.processes not in (1, 2, 3) or (mutant.processes > 1 and mutant.role != "coordinator"):
        yield "a coordinator has 1 to 3 processes, others one"
    if mutant.seen is not None and not SYSTEM.fullmatch(mutant.seen):
        yield f"seen {mutant.seen!r} is not of the form owner/repository#number"
    if not mutant.breaks or len(set(mutant.breaks)) < len(mutant.breaks):
        yield "breaks names every broken requirement once, at least one"
    if unknown := [name for name in mutant.breaks if name not in requirements()]:
        yield f"no requirement is called {', '.join(unknown)}"
    yield from _edit_faults(mutant, root)


def _edit_faults(mutant: Mutant, root: Path) -> Iterator[str]:
    if not mutant.edits:
        yield "there is no edit"
    if any(edit.old == edit.new for edit in mutant.edits):
        yield "an edit changes nothing"
    try:
        texts = patched(mutant, root)
    except BadEdit as bad:
        yield str(bad)
        return
    for path, text in texts.items():
        try:
            if path.endswith(".py"):
                compile(text, path, "exec", dont_inherit=True)
            elif path.endswith(".json"):
                json.loads(text)
        except ValueError as error:  # of JSON; no source file holds U+0000
            yield f"{path}: {error}"
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: {error.msg}"
