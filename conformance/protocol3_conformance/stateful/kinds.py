"""The machines there are, by the check that plays them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.stateful import goals, pair, tasks, workflows
from protocol3_conformance.stateful.goals import Goals
from protocol3_conformance.stateful.history import History
from protocol3_conformance.stateful.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`words` are drawn as often as they say; examples take their beginnings from `goals`, in turn."""

    make: Callable[[History], Machine]
    words: Mapping[str, int]
    goals: Goals


def scope(lab: Lab, name: str) -> Any:
    """A scope for each example, or the one there is; a template."""
    return lab.scope if lab.target.scope else {"tenant_id": "conformance", "namespace": f"{name}:{{run}}"}


def _tasks(history: History) -> Machine:
    return tasks.Tasks(history=history, scope=scope(history.lab, "one"))


def _workflows(history: History) -> Machine:
    return workflows.Flows(history=history, scope=scope(history.lab, "one"))


def _forks(history: History) -> Machine:
    return workflows.Flows(history=history, scope=scope(history.lab, "one"), nested=True)


def _two_scopes(history: History) -> Machine:
    return pair.Pair(history=history, scopes=(scope(history.lab, "one"), scope(history.lab, "two")))


KINDS = {
    "stateful/tasks": Kind(make=_tasks, words=tasks.WORDS, goals=goals.TASKS),
    "stateful/workflows": Kind(make=_workflows, words=workflows.WORDS, goals=goals.FLOWS),
    "stateful/forks": Kind(make=_forks, words=workflows.FORKS, goals=goals.FORKS),
    "stateful/two-scopes": Kind(make=_two_scopes, words=pair.WORDS, goals=pair.GOALS),
}
