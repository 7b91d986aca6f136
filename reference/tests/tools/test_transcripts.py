"""The transcripts of the stories: told again they are the same, and whatever differs from its diagram is a fault."""

import importlib
import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
NAMES = (
    "submit-to-settle",
    "lost-acknowledgement",
    "fork-and-crash",
    "event-against-deadline",
    "cancel-against-completion",
)
#: Members that say how long something took, or how far the coordinator had come.
MEASURED = frozenset({"remaining_ms", "execution_remaining_ms", "next_due", "time"})


class Tools(NamedTuple):
    form: Any
    stories: Any
    diagrams: Any
    system: Any


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    sys.path.insert(0, str(ROOT / "tools"))
    modules = ("transcripts.form", "transcripts.stories", "transcripts.diagrams", "system")
    yield Tools(*map(importlib.import_module, modules))
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def target(tools: Tools, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a served coordinator with test controls."""
    system = tools.system.System(tmp_path_factory.mktemp("stories"), database_url=database)
    system.publish("hello")
    system.start_coordinator("--test-controls")
    yield system.url.removeprefix("http://")
    system.stop("coordinator")


def stored(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "fixtures" / "transcripts" / f"{name}.json").read_text(encoding="utf-8")
    exchanges: list[dict[str, Any]] = json.loads(text)["exchanges"]
    return exchanges


def timeless(value: Any, start_ms: int, member: str = "") -> Any:
    """Without instants and durations."""
    if isinstance(value, dict):
        return {key: timeless(one, start_ms, key) for key, one in value.items()}
    if isinstance(value, list):
        return [timeless(one, start_ms) for one in value]
    is_instant = type(value) is int and value >= start_ms
    return "measured" if member in MEASURED or is_instant else value


@pytest.mark.parametrize("name", NAMES)
def test_a_story_told_again(tools: Tools, target: str, name: str) -> None:
    told = tools.form.normalized(tools.stories.played(name, target))
    assert tools.form.invalid(told) == []
    start = tools.form.START_MS
    assert timeless(told, start) == timeless(stored(name), start)


def test_every_diagram_has_its_transcript(tools: Tools) -> None:
    chapter = (ROOT / "spec" / "42-stories.md").read_text(encoding="utf-8")
    shown = list(tools.diagrams.linked(chapter))
    assert tuple(name for name, _ in shown) == NAMES == tuple(tools.stories.STORIES)
    for name, diagram in shown:
        assert tools.diagrams.requests(diagram) != []
        assert tools.diagrams.differences(diagram, stored(name)) == []


DIAGRAM = """
    participant C as client
    participant O as coordinator
    C->>O: POST /v1/workflows/events, key payment
    Note over O: commits
    O--xC: lost
    C->>O: the same bytes again
    O-->>C: receipt
    C->>O: POST /v1/workflows/cancel
    O-->>C: 409 obsolete_operation
"""
EVENT = {"from": "client", "method": "POST", "path": "/v1/workflows/events", "request": {"key": "payment"}}
CANCEL = {"from": "client", "method": "POST", "path": "/v1/workflows/cancel", "request": {}, "status": 409}
LOOK = {"from": "test", "method": "GET", "path": "/testing/v1/faults", "query": {}, "status": 200}
TOLD: list[dict[str, Any]] = [EVENT | {"status": None}, LOOK, EVENT | {"status": 200}, CANCEL]


def test_what_a_diagram_shows_is_there(tools: Tools) -> None:
    assert tools.diagrams.differences(DIAGRAM, TOLD) == []


def _changed(number: int, **members: Any) -> list[dict[str, Any]]:
    exchanges = deepcopy(TOLD)
    exchanges[number] |= members
    return exchanges


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(_changed(0, status=200), id="the reply was read"),
        pytest.param(_changed(2, status=503), id="another status"),
        pytest.param(_changed(2, request={"key": "other"}), id="not the same bytes"),
        pytest.param(_changed(3, status=200), id="no refusal"),
        pytest.param(_changed(3, **{"from": "worker"}), id="another sender"),
        pytest.param(_changed(3, path="/v1/tasks/cancel"), id="another path"),
        pytest.param(_changed(1, status=404), id="a refusal that is not shown"),
        pytest.param([*TOLD, LOOK | {"status": None}], id="a loss after all"),
        pytest.param(TOLD[:3], id="one is missing"),
        pytest.param([TOLD[3], *TOLD[:3]], id="another order"),
    ],
)
def test_what_differs_from_a_diagram(tools: Tools, told: list[dict[str, Any]]) -> None:
    assert tools.diagrams.differences(DIAGRAM, told) != []


def test_a_message_that_breaks_its_schema(tools: Tools) -> None:
    """Requests, replies and refusals alike."""
    exchanges = stored("event-against-deadline")
    (refused,) = [one for one in exchanges if one["status"] == 409]
    for member, broken in (("reply", {"no": "code"}), ("request", {})):
        kept = refused[member]
        refused[member] = broken
        assert tools.form.invalid(exchanges) != []
        refused[member] = kept
    assert tools.form.invalid(exchanges) == []
