"""Checks of workers, by a scripted coordinator."""

from __future__ import annotations

from collections.abc import Callable

from protocol3_conformance.scenario import Body, scenario
from protocol3_conformance.target import WORKER


def worker_check(
    check_id: str, *, cites: list[str], profile: str = "core", slow: bool = False
) -> Callable[[Body], Body]:
    """A scenario of the worker role; its one argument is a WorkerLab. `slow`: it waits for an interval."""
    return scenario(check_id, cites=cites, profile=profile, role=WORKER, slow=slow)
