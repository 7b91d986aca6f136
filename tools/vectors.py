"""Message vectors: every schema's valid and invalid messages in fixtures/vectors/messages, as JSON texts with verdicts.

    python tools/vectors.py            write them
    python tools/vectors.py --check    change nothing; fail and name the files that are not as they would be written

They have two sources. `vector_breaks.py` takes the examples of a schema apart by its keywords. The files in
fixtures/vectors/sources hold what people thought of: edits of an example, each with its rule and its reason.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import vector_breaks
from protocol3_spec import schemas, validation
from protocol3_spec.compact import compact, compact_bytes
from vector_breaks import Edit, Place, decoded

ROOT: Final = Path(__file__).resolve().parent.parent
VECTORS: Final = ROOT / "fixtures/vectors"
DERIVED_INVALID: Final = 14
DERIVED_VALID: Final = 6
#: Schemas whose receiver takes the last of equal names, and their frames (RUN-027).
LENIENT: Final = {"frame-invoke", "frame-shutdown"}
_REPEATED: Final = re.compile(r"<<(.+?)\*(\d+)>>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One message as text; `breaks` is the requirement that an invalid one breaks, None for a valid one."""

    id: str
    text: str
    why: str
    breaks: str | None = None

    def to_json(self) -> dict[str, Any]:
        if self.breaks is None:
            size = compact_bytes(decoded(self.text))
            return {"id": self.id, "why": self.why, "text": self.text, "compact_bytes": size}
        return {"id": self.id, "breaks": self.breaks, "why": self.why, "text": self.text}


def main() -> int:
    sources = {name: table for path in sorted((VECTORS / "sources").glob("*.toml")) for name, table in read(path)}
    wanted = {VECTORS / f"messages/{name}.json": page(name, sources.pop(name, {})) for name in schemas()}
    if sources:
        sys.exit(f"no such schema: {', '.join(sources)}")
    drifted = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = sorted({*(VECTORS / "messages").glob("*.json")} - wanted.keys())
    if "--check" not in sys.argv[1:]:
        (VECTORS / "messages").mkdir(exist_ok=True)
        for path in drifted:
            path.write_text(wanted[path], encoding="utf-8")
        for path in extra:
            path.unlink()
        print(f"{len(drifted)} written, {len(extra)} removed")
        return 0
    for path in [*drifted, *extra]:
        print(f"{path.relative_to(ROOT)} is not what its sources say: run python tools/vectors.py")
    print(f"{len(wanted) - len(drifted)} passed, {len(drifted) + len(extra)} failed")
    return 1 if drifted or extra else 0


def read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from tomllib.loads(path.read_text(encoding="utf-8")).items()


def page(name: str, source: dict[str, Any]) -> str:
    """The file of one schema: a vector a line. Exits for one whose verdict the schema does not share."""
    if name == "scalars":
        valid, invalid = scalar_vectors(source)
    else:
        valid = unique([*by_hand_valid(name, source), *derived_valid(name, source)])
        invalid = unique([*by_hand_invalid(name, source), *derived_invalid(name, source)])
    wrong = [said for vector in [*valid, *invalid] if (said := verdict_differs(name, vector))]
    if wrong:
        sys.exit("\n".join(wrong))
    lines = {
        kind: ",\n".join(f"  {json.dumps(vector.to_json(), ensure_ascii=True)}" for vector in vectors)
        for kind, vectors in (("valid", valid), ("invalid", invalid))
    }
    head = f'{{\n "format": 1,\n "schema": {json.dumps(name)},\n'
    return f'{head} "valid": [\n{lines["valid"]}\n ],\n "invalid": [\n{lines["invalid"]}\n ]\n}}\n'


def verdict_differs(name: str, vector: Vector) -> str | None:
    """What to say about a vector whose verdict is not the schema's."""
    try:
        found = [str(problem) for problem in validation.problems(definition_of(name, vector), decoded(vector.text))]
    except ValueError:
        found = ["is no JSON of the profile"]
    return None if bool(found) == bool(vector.breaks) else f"{name} {vector.id} ({vector.why}): schema: {found}"


def unique(vectors: list[Vector]) -> list[Vector]:
    """Each text once; ids that occur again are numbered."""
    texts = {vector.text: vector for vector in reversed(vectors)}
    return numbered([vector for vector in vectors if texts[vector.text] is vector])


def numbered(vectors: list[Vector]) -> list[Vector]:
    seen: Counter[str] = Counter()
    made = []
    for vector in vectors:
        seen[vector.id] += 1
        number = seen[vector.id]
        made.append(vector if number == 1 else replace(vector, id=f"{vector.id} ({number})"))
    return made


def by_hand_valid(name: str, source: dict[str, Any]) -> list[Vector]:
    """`[why, at, put, example?]`."""
    return [
        Vector(id=f"good {number}", why=why, text=edited(name, *edit))
        for number, (why, *edit) in enumerate(source.get("valid", ()), 1)
    ]


def by_hand_invalid(name: str, source: dict[str, Any]) -> list[Vector]:
    """`[requirement, why, at, put, example?]`."""
    return [
        Vector(id=f"bad {number}", breaks=breaks, why=why, text=edited(name, *edit))
        for number, (breaks, why, *edit) in enumerate(source.get("invalid", ()), 1)
    ]


def edited(name: str, at: str, put: str, base: int = 0) -> str:
    """An example with JSON text in the place `at`; without it if the text is empty; `at` ":" is the whole text.

    Several places and texts stand apart by " & ". `<<x*5>>` is x five times.
    """
    if at == ":":
        return filled(put)
    edits = [Edit(place, filled(text)) for place, text in zip(at.split(" & "), put.split(" & "), strict=True)]
    return vector_breaks.applied(schemas()[name]["examples"][base], edits)


def filled(put: str) -> str:
    return _REPEATED.sub(lambda found: found[1] * int(found[2]), put)


def derived_invalid(name: str, source: dict[str, Any]) -> list[Vector]:
    """Some of every kind of break, the outermost places first."""
    rules = vector_breaks.Rules(name, source.get("ids", {}))
    by_kind: dict[str, list[Vector]] = {}
    for number, example in enumerate(schemas()[name]["examples"]):
        places = sorted(vector_breaks.places(name, example), key=lambda place: place.at.count("/"))
        for found in (found for place in places for found in vector_breaks.breaks(place, rules)):
            text = vector_breaks.applied(example, [found.edit])
            if number and text in {vector.text for vector in by_kind.get(found.kind, ())}:
                continue
            identity = f"{found.kind} {found.edit.at or '/'}" + (f" of example {number}" if number else "")
            named = source.get("ids", {}).get(identity, found.breaks)
            vector = Vector(id=identity, text=text, why=found.why, breaks=named)
            by_kind.setdefault(found.kind, []).append(vector)
    if name not in LENIENT:
        by_kind["repeated"] = [repeated(schemas()[name]["examples"][0])] if name_of_first(name) else []
    rounds = zip_longest(*by_kind.values())
    return [vector for vectors in rounds for vector in vectors if vector is not None][:DERIVED_INVALID]


def name_of_first(name: str) -> bool:
    example = schemas()[name]["examples"][0]
    return isinstance(example, dict) and bool(example)


def repeated(example: dict[str, Any]) -> Vector:
    text, first = compact(example), next(iter(example))
    text = f"{text[:-1]},{compact(first)}:{compact(example[first])}}}"
    return Vector(id="repeated name", text=text, why=f"`{first}` occurs twice, although equally.", breaks="JSON-006")


def derived_valid(name: str, source: dict[str, Any]) -> list[Vector]:
    """The examples, and the first one written and filled differently as far as the schema allows."""
    examples = schemas()[name]["examples"]
    made = [Vector(id=f"example {n}", why="An example.", text=compact(one)) for n, one in enumerate(examples)]
    made += list(vector_breaks.rewritten(examples[0]))
    edges: list[Vector] = []
    for number, example in enumerate(examples):
        for place in vector_breaks.places(name, example):
            for why, edit in vector_breaks.edges(place):
                text = vector_breaks.applied(example, [edit])
                if validation.is_valid(name, decoded(text)):
                    edges.append(Vector(id=f"{why} {edit.at or '/'} of example {number}", why=f"{why}.", text=text))
    return made + unique(edges)[:DERIVED_VALID]


def scalar_vectors(source: dict[str, Any]) -> tuple[list[Vector], list[Vector]]:
    """Of every definition; the id of a vector opens with its name."""
    valid, invalid = [], []
    for name, definition in schemas()["scalars"]["$defs"].items():
        place = Place.of("scalars", f"/$defs/{name}", "", definition["examples"][0])
        for number, example in enumerate(definition["examples"]):
            valid.append(Vector(id=f"{name} example {number}", why="An example.", text=compact(example)))
        valid += [Vector(id=f"{name} {why}", why=f"{why}.", text=edit.put) for why, edit in vector_breaks.edges(place)]
        for found in vector_breaks.breaks(place, vector_breaks.Rules("scalars", source.get("ids", {}))):
            identity = f"{name} {found.kind} {found.edit.put[:20]}"
            invalid.append(Vector(id=identity, why=found.why, text=found.edit.put, breaks=found.breaks))
    valid += [Vector(id=f"{name} hand {text}"[:60], why=why, text=text) for name, why, text in source.get("valid", ())]
    invalid += [
        Vector(id=f"{name} hand {text}"[:60], breaks=breaks, why=why, text=filled(text))
        for name, breaks, why, text in source.get("invalid", ())
    ]
    fitting = [vector for vector in valid if not verdict_differs("scalars", vector)]
    return numbered(fitting), numbered(invalid)


def definition_of(name: str, vector: Vector) -> str:
    return f"scalars#/$defs/{vector.id.partition(' ')[0]}" if name == "scalars" else name


if __name__ == "__main__":
    sys.exit(main())
