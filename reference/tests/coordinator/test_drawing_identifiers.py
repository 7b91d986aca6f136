"""Where identifiers come from and where their form is known again: without a database."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from protocol3.coordinator.observation import collect, note
from protocol3.core.verdict import Fresh, Replay
from protocol3.store import transition

NOW = 1_700_000_000_000


class NoDatabase:
    """A pool of connections that can do nothing."""

    @asynccontextmanager
    async def acquire(self):
        yield None


async def nothing(_):
    return None


@pytest.fixture
def drawn():
    """The identifier of a transition that writes nothing."""
    transitions = transition.Transitions(NoDatabase(), on_commit=lambda _: None)

    async def draw():
        return await transitions.run("key", nothing, lambda _, fresh: Replay(reply=fresh("task")))

    return draw


async def test_later_transitions_draw_later_identifiers(drawn, monkeypatch):
    """New rows lie at the end of an index, so that they touch few of its pages."""
    times = [NOW, NOW + 1, NOW + 16, NOW + 86_400_000]
    clock = iter(time * 1_000_000 + 999_999 for time in times)
    monkeypatch.setattr(transition, "time", SimpleNamespace(time_ns=lambda: next(clock)))
    ids = [await drawn() for _ in times]
    assert ids == sorted(ids)
    assert [int(id.removeprefix("task_")[:12], 16) for id in ids] == times


async def test_a_transition_draws_128_bits_from_the_system(drawn, monkeypatch):
    """TASK-043: an identifier cannot be guessed."""
    asked = []

    def urandom(size):
        asked.append(size)
        return bytes(size)

    monkeypatch.setattr(transition, "os", SimpleNamespace(urandom=urandom))
    await drawn()
    assert asked == [16]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("task_id", "task"), ("attempt_id", "att"), ("workflow_id", "wf"), ("worker_session_id", "ws")],
)
def test_what_is_told_of_an_exchange_knows_them(name, prefix):
    """Another text in their place is a client's, and is not told."""
    known, found = Fresh(b"seed", NOW)(prefix), collect()
    note(**{name: known})
    assert found == {name: known}
    for other in (f"{known}0", known[:-1], known.upper(), f"x{known}", known.replace("_", "-")):
        note(**{name: other})
        assert found == {name: known}
