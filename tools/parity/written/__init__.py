"""Cases written by hand."""

from parity.case import Case
from parity.written import (
    activations,
    answers,
    decisions,
    endings,
    frames,
    launches,
    logs,
    registry,
    steps,
    tasks,
    values,
    wakes,
)


def cases() -> list[Case]:
    """All of them, each under a name of its own."""
    rooms = (tasks, values, steps, answers, decisions, activations, wakes, registry, frames, endings, launches, logs)
    listed = [case for room in rooms for case in room.cases()]
    assert len({case.name for case in listed}) == len(listed), "two cases have one name"
    return listed
