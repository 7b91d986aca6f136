"""Every message vector gets its verdict from the schemas and from the reference's own reading, and has its bytes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import strict_json
from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.rules import AddFault, Pick
from protocol3_spec import compact, schemas, validation
from protocol3_spec.loader import read

from . import judges

ROOT = Path(__file__).parents[3]
FILES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "fixtures/vectors/messages").glob("*.json"))
}
RULES = {row["id"]: row["text"] for row in read("requirements.json")["requirements"]}
KNOWN = {*RULES}
for chapter in (ROOT / "spec").glob("[0-9][0-9]-*.md"):
    KNOWN |= set(
        re.findall(r"^(?:- |\| )\*\*([A-Z]{2,4}-\d{3})\*\*", chapter.read_text(encoding="utf-8"), re.MULTILINE)
    )

SPOKEN = {
    "unknown": r"member|exactly|attribute|table|has `",
    "missing": r"member|exactly|attribute|table|has|required|reports|is the string|`specversion`|`id`|`\{",
    "twice": r"twice|once|distinct|unique|member|exactly|ascend|repeat|doubled|same key|differ",
    "word": r"`|[Ww]ord|kind|[Cc]ode|values",
}
"""By the kind of a derived vector, what the rule that it breaks has to speak of."""
BOUNDED = "own bounds|ranges|broken bound|negative|at least"

DIFFERENCES = {
    "accepted-input bad 1": "the class reads a submission's input too, which may leave it out (CLI-052)",
    "accepted-input bad 2": "the class reads a submission's input too, which may leave it out (CLI-052)",
    "accepted-input null /correlation_key": "the class reads a submission's input too; readers take null (CLI-052)",
    "task-snapshot null /input/correlation_key": "the same",
    "authority bad 1": "read like any other; then it ends the attempt (WRK-022)",
    "fork-receipt twice /branch_keys": "the class trusts that it repeats the keys of an accepted fork (FRK-010)",
    "frame-invoke null /observe": "anything but true means no (RUN-039)",
    "frame-invoke word /event/specversion": "the child does not judge the event beyond its identity (RUN-035)",
    "approval-wake The greatest /approval/revision of example 0": "no activation has the revision after it (WF-051)",
}
"""Vectors, as `schema id`, to which the reference gives another verdict, and why."""


def vectors(name: str) -> list[tuple[bool, dict[str, Any]]]:
    return [(kind == "valid", vector) for kind in ("valid", "invalid") for vector in FILES[name][kind]]


def definition(name: str, vector: dict[str, Any]) -> str:
    return f"scalars#/$defs/{vector['id'].partition(' ')[0]}" if name == "scalars" else name


def by_schema(name: str, vector: dict[str, Any]) -> bool:
    try:
        return validation.is_valid(definition(name, vector), strict_json.decode(vector["text"].encode()))
    except strict_json.InvalidJson:
        return False


def test_every_schema_has_vectors() -> None:
    """At least five valid and ten invalid ones, each text and each id once."""
    assert FILES.keys() == schemas().keys()
    for name, file in FILES.items():
        assert (file["format"], file["schema"]) == (1, name)
        assert len(file["valid"]) >= 5, name
        assert len(file["invalid"]) >= 10, name
        identities = [vector["id"] for _, vector in vectors(name)]
        assert len(identities) == len(set(identities)), name


@pytest.mark.parametrize("name", FILES)
def test_verdicts_of_the_schema(name: str) -> None:
    for valid, vector in vectors(name):
        assert by_schema(name, vector) is valid, vector


@pytest.mark.parametrize("name", FILES)
def test_the_rule_that_is_broken_speaks_of_it(name: str) -> None:
    """Of members, where one is too many or missing; of equals, where two are; of the number that a value is beyond."""
    for vector in FILES[name]["invalid"]:
        rule = RULES[vector["breaks"]]
        kind = vector["id"].split()[1 if name == "scalars" else 0]
        assert re.search(SPOKEN.get(kind, ""), rule), vector
        number = re.fullmatch(r"(?:Above|Below) (-?\d+)\.", vector["why"])
        if number is not None:
            spoken = re.sub(r"(?<=\d)[ \u00a0\u202f](?=\d{3})", "", rule)
            assert re.search(rf"(?<!\d){number[1]}(?!\d)|own bounds|ranges|broken bound|negative|at least", spoken), (
                vector
            )


@pytest.mark.parametrize("name", FILES)
def test_reasons_and_bytes(name: str) -> None:
    """An invalid one names a requirement that exists; a valid one is as long as the contract counts (JSON-050…054)."""
    for valid, vector in vectors(name):
        assert vector["why"].endswith((".", ". "))
        if valid:
            value = strict_json.decode(vector["text"].encode())
            assert compact.compact_bytes(value) == strict_json.compact_size(value) == vector["compact_bytes"]
        else:
            assert vector["breaks"] in KNOWN, vector


@pytest.mark.parametrize("name", judges.MODELS)
def test_verdicts_of_the_reference(name: str) -> None:
    found = []
    for valid, vector in vectors(name):
        if judges.MODELS[name](vector["text"]) is not valid and f"{name} {vector['id']}" not in DIFFERENCES:
            found.append(f"{vector['id']} ({vector['why']}) should be {valid}: {vector['text'][:200]}")
    assert found == []


@pytest.mark.parametrize("name", judges.SCALARS)
def test_verdicts_of_the_reference_on_scalars(name: str) -> None:
    for valid, vector in vectors("scalars"):
        if vector["id"].startswith(f"{name} "):
            assert judges.SCALARS[name](vector["text"]) is valid, vector


def test_every_difference_is_one() -> None:
    every = {f"{name} {vector['id']}": (name, vector["text"]) for name in judges.MODELS for _, vector in vectors(name)}
    for key in DIFFERENCES:
        name, text = every[key]
        assert judges.MODELS[name](text) is not by_schema(name, {"id": key, "text": text})


def test_what_the_controls_write_is_as_their_schemas_say() -> None:
    """TST-031, TST-033, TST-034, TST-036: messages that the reference writes and never reads."""
    faults = Faults()
    for example in schemas()["fault-command"]["examples"]:
        command = AddFault.from_json(example)
        assert validation.problems("fault", faults.add(command)) == []
    assert validation.problems("fault-list", faults.shown(command.scope)) == []
    everything = Pick(scope=command.scope, id=None)
    assert validation.problems("fault-released", faults.release(everything)) == []
    assert validation.problems("fault-cleared", faults.clear(everything)) == []


def test_every_schema_has_a_model_or_a_reason() -> None:
    assert judges.MODELS.keys().isdisjoint(judges.NO_MODEL)
    assert judges.MODELS.keys() | judges.NO_MODEL.keys() | {"scalars"} == schemas().keys()
