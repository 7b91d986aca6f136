"""Schemas and reference give every message the same verdict: samples, and each of them broken in many ways.

Where they differ on purpose, DIFFERENCES says where, and why. A run takes every THIN-th break; with the variable
EVERY_BREAK set it takes them all, which lasts minutes.
"""

import copy
import importlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.decisions import DecisionInvalid, decode_decision
from protocol3.contract.models.delivery import SettleCommand
from protocol3.contract.refusal import Refusal
from protocol3_spec import schemas, validation

SAMPLES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "contract/messages.json").read_text(encoding="utf-8"))
NAMES = {schema["title"]: name for name, schema in schemas().items()}

DIFFERENCES = {
    r"task-snapshot input/(retry_policy|attempt_timeout_ms|correlation_key)": (
        "the class reads a submission's input too, which may leave these out; a service writes them out (CLI-052)"
    ),
    r"attempt settlement/command/processing_trace": (
        "the class trusts the texts of a stored trace: they were judged when the command was accepted (TRC-016)"
    ),
    r"(assignment authority/|authority )(dispatch_allowed|renew_sequence)": (
        "the class reads permission without a renewal, which then ends the attempt (WRK-022)"
    ),
    r"event-receipt event_source": "the class trusts that it repeats the source of an accepted event (EVT-012)",
    r"fork-receipt branch_keys": "the class trusts that it repeats the distinct keys of an accepted fork (FRK-010)",
}
"""Places, as `sample path`, at which the schema may refuse what the class takes. Nowhere is it the other way round."""

THIN = 1 if os.environ.get("EVERY_BREAK") else 29

NUMBERS = [0, 1, 2, 1.0, -0.0, 1e0, -1, 1000, 1001, 20000, 20001, 60000, 59999, 86400000, 86400001, 2**31 - 1, 2**31]
NUMBERS += [2**32 - 1, 2**32, 2**64 - 1, 31536000000, 31536000001, 253402300799999, 253402300800000, -(2**31) - 1]
TEXTS = ["", "x", "x" * 128, "x" * 129, "é" * 64, "é" * 65, "x" * 255, "x" * 256, "x" * 512, "x" * 513, "a\n", "\x9f"]
TEXTS += [
    "\ufdd0",
    "\U0001fffe",
    "\u2028",
    ".",
    "..",
    "A",
    "a b",
    "/x%2",
    "http://[::1]/",
    "9:rel",
    "urn:a#",
    "a=b,a=c",
]
TEXTS += ["2016-12-31T23:59:60Z", "2016-12-30T23:59:60Z", "1.0", "0" * 64, "sha256:" + "0" * 64 + "\n"]
WORDS = ["queued", "active", "succeeded", "failed", "cancelled", "lost", "running", "waiting", "failing", "confirmed"]
WORDS += ["unconfirmed", "task", "workflow", "io", "application", "attempt_lost", "execution", "timeout", "Active"]
OTHERS: list[Any] = [None, True, False, [], {}, [1], {"kind": "cancelled"}, [[]], {"a": [{}]}]
VALUES: list[Any] = [*OTHERS, *NUMBERS, *TEXTS, *WORDS]


def takes(sample: str, document: Any) -> bool:
    """Whether the reference reads the document."""
    module, name = SAMPLES[sample]["class"].split(".")
    try:
        if name == "decode_decision":
            decode_decision(document)
            return True
        cls: Any = getattr(importlib.import_module(f"protocol3.contract.models.{module}"), name)
        read = cls.from_json(document)
        if isinstance(read, SettleCommand):  # judged after the owner, see there
            read.check_trace()
            read.check_size()
    except (Refusal, DecisionInvalid):
        return False
    return True


def schema_of(sample: str) -> str:
    name = SAMPLES[sample]["class"].partition(".")[2]
    return NAMES["Decision" if name == "decode_decision" else name]


def places(value: Any, opaque: list[str], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document, application values not entered."""
    yield path
    if ".".join(map(str, path)) in opaque:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in items:
        yield from places(child, opaque, (*path, step))


def holder_of(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        document = document[step]
    return document


def value_at(document: Any, path: tuple[Any, ...]) -> Any:
    return holder_of(document, path)[path[-1]] if path else document


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at the path."""
    changed = copy.deepcopy(document)
    holder_of(changed, path)[path[-1]] = value
    return changed


def removed(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    del holder_of(changed, path)[path[-1]]
    return changed


def breaks(document: Any, path: tuple[Any, ...], values: list[Any]) -> Iterator[Callable[[], Any]]:
    """Makers of the document without the value at a path, with another one there, with more inside it."""
    here = value_at(document, path)
    if path:
        yield partial(removed, document, path)
        yield from (partial(replaced, document, path, value) for value in values)
    if isinstance(here, dict):
        for name in ("unheardof", "unheard_of", "kind", "code", "\n"):
            yield from (partial(replaced, document, (*path, name), value) for value in (1, "x", None))
    if isinstance(here, list) and here:
        for times in (2, 64, 65, 128, 129):
            yield partial(replaced, document, path, [here[0]] * times)
            if isinstance(here[0], dict) and "key" in here[0]:
                yield partial(replaced, document, path, [here[0] | {"key": f"k{n}"} for n in range(times)])


def disagreements(sample: str, path: tuple[Any, ...], values: list[Any]) -> list[str]:
    name, found = schema_of(sample), []
    place = f"{sample} {'/'.join(map(str, path))}"
    start = zlib.crc32(place.encode()) % THIN
    for made in islice(breaks(SAMPLES[sample]["document"], path, values), start, None, THIN):
        document = made()
        by_reference, by_schema = takes(sample, document), validation.is_valid(name, document)
        if by_reference == by_schema:
            continue
        if by_reference and any(re.match(known, place) for known in DIFFERENCES):
            continue
        shown = json.dumps(value_at(document, path))[:80] if path and path[-1] in holder_of(document, path) else "gone"
        verdicts = f"reference {by_reference}, schema {by_schema}"
        found.append(f"{place} = {shown}: {verdicts} {[str(p) for p in validation.problems(name, document)][:2]}")
    return found


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_is_valid_by_both(sample: str) -> None:
    document = SAMPLES[sample]["document"]
    assert takes(sample, document)
    assert validation.problems(schema_of(sample), document) == []


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_break_has_one_verdict(sample: str) -> None:
    """JSON-027, JSON-080…083, TXT-009, and the relations between members."""
    document = SAMPLES[sample]["document"]
    paths = list(places(document, SAMPLES[sample]["opaque"]))
    own = [value for path in paths if not isinstance(value := value_at(document, path), dict | list)]
    found = [line for path in paths for line in disagreements(sample, path, [*VALUES, *own])]
    assert found == []
