"""Every message class against its sample in messages.json: round trip, missing, null and unknown members.

A sample lists the paths of members that may be absent (`optional`) or null (`nullable`), of application values
(`opaque`: anything goes inside) and of objects that take unknown members (`lenient`).
"""

import copy
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.decisions import DecisionInvalid, decision_to_json, decode_decision
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import canonical, decode, encode

Document = dict[str, Any]
SAMPLES: dict[str, Document] = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))


def parse(sample: Document, document: Any) -> Document:
    """What the class makes of a document, written again. Raises Refusal or DecisionInvalid."""
    module, name = sample["class"].split(".")
    if name == "decode_decision":
        return decision_to_json(decode_decision(document))
    cls: Any = getattr(importlib.import_module(f"protocol3.contract.models.{module}"), name)
    written: Document = cls.from_json(document).to_json()
    return written


def paths(value: Any, opaque: list[str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every member and element with its path, application values not entered."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        path = f"{prefix}{key}"
        yield path, child
        if path not in opaque:
            yield from paths(child, opaque, f"{path}.")


def edited(document: Document, path: str, edit: Callable[[Any, Any], None]) -> Document:
    """A copy of the document, its container of the path's last step edited."""
    edited_document: Document = copy.deepcopy(document)
    *way, last = path.split(".")
    holder: Any = edited_document
    for step in way:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    edit(holder, int(last) if isinstance(holder, list) else last)
    return edited_document


def remove(holder: Any, key: Any) -> None:
    del holder[key]


def make_null(holder: Any, key: Any) -> None:
    holder[key] = None


def make_float(holder: Any, key: Any) -> None:
    holder[key] = 1.0


MEMBERS = [
    (name, path)
    for name, sample in SAMPLES.items()
    for path, _ in paths(sample["document"], sample["opaque"])
    if not path.rpartition(".")[2].isdecimal()
]
OBJECTS = [
    (name, path)
    for name, sample in SAMPLES.items()
    for path, value in [("", sample["document"]), *paths(sample["document"], sample["opaque"])]
    if isinstance(value, dict) and path not in sample["opaque"]
]


def refusal_of(sample: Document, document: Any) -> str:
    with pytest.raises((Refusal, DecisionInvalid)) as caught:
        parse(sample, document)
    error = caught.value
    if isinstance(error, DecisionInvalid):
        return error.reason
    assert isinstance(error, Refusal)
    assert (error.code, error.status) == ("invalid_input", 400)
    return error.message or ""


@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip(name: str) -> None:
    """TASK-222, DISC-027, WF-066, ACT-049, LOC-013, CHD-060, FRK-022, EVT-023, TMR-024."""
    document = SAMPLES[name]["document"]
    assert canonical(parse(SAMPLES[name], document)) == canonical(document)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("document", [None, True, 1, 1.5, "text", []], ids=repr)
def test_only_objects(name: str, document: Any) -> None:
    assert refusal_of(SAMPLES[name], document).endswith("must be an object")


@pytest.mark.parametrize(("name", "path"), MEMBERS, ids=[f"{n}-{p}" for n, p in MEMBERS])
def test_missing_member(name: str, path: str) -> None:
    """JSON-081."""
    sample = SAMPLES[name]
    document = edited(sample["document"], path, remove)
    if path in sample["optional"]:
        parse(sample, document)
    else:
        assert leaf_of(path) in refusal_of(sample, document)


@pytest.mark.parametrize(("name", "path"), MEMBERS, ids=[f"{n}-{p}" for n, p in MEMBERS])
def test_null_member(name: str, path: str) -> None:
    """JSON-081, JSON-082."""
    sample = SAMPLES[name]
    document = edited(sample["document"], path, make_null)
    if path in sample["nullable"]:
        parse(sample, document)
    else:
        assert leaf_of(path) in refusal_of(sample, document)


@pytest.mark.parametrize(("name", "path"), MEMBERS, ids=[f"{n}-{p}" for n, p in MEMBERS])
def test_wrong_type(name: str, path: str) -> None:
    """JSON-027, DLV-070: no typed member takes a float."""
    sample = SAMPLES[name]
    document = edited(sample["document"], path, make_float)
    if path in sample["opaque"]:
        assert canonical(parse(sample, document)) == canonical(document)
    else:
        assert leaf_of(path) in refusal_of(sample, document)


@pytest.mark.parametrize(("name", "path"), OBJECTS, ids=[f"{n}-{p}" for n, p in OBJECTS])
def test_unknown_member(name: str, path: str) -> None:
    """JSON-080, DLV-073: refused by name, or ignored and not written again.

    DISC-027, WF-066, ACT-049, LOC-013, CHD-060, FRK-022, EVT-023.
    """
    sample = SAMPLES[name]
    document = edited(sample["document"], f"{path}.unheard_of".lstrip("."), lambda holder, key: holder.update({key: 1}))
    if path.endswith("event") and path in sample["lenient"]:
        document = edited(sample["document"], f"{path}.unheardof", lambda holder, key: holder.update({key: 1}))
        assert canonical(parse(sample, document)) == canonical(document)
    elif path.endswith("inputs"):
        assert "inputs" in refusal_of(sample, document)
    elif path in sample["lenient"]:
        assert canonical(parse(sample, document)) == canonical(sample["document"])
    else:
        assert "unheard_of" in refusal_of(sample, document)


def leaf_of(path: str) -> str:
    """What a refusal must name: the member, or for a key of `inputs` the object."""
    return "inputs" if path.startswith("inputs.") else path.rpartition(".")[2]


def test_application_values_may_look_like_the_protocol() -> None:
    """JSON-084, JSON-008: any names, also those of the members around them."""
    data = {"tenant_id": 1, "program": {"id": {"program": None}}, "": [], "$schema": {"": ""}, "a": {"a": {"a": 1.0}}}
    document = copy.deepcopy(SAMPLES["submit"]["document"])
    document["input"]["data"] = data
    assert canonical(SubmitCommand.from_json(decode(encode(document))).input.data) == canonical(data)
