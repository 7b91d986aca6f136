"""Checks of program processes, over their pipes."""

from __future__ import annotations

from collections.abc import Callable

from protocol3_conformance.scenario import Body, scenario
from protocol3_conformance.target import RUNTIME


def runtime_check(check_id: str, *, cites: list[str], profile: str = "core") -> Callable[[Body], Body]:
    """A scenario of the runtime role; its one argument is a RuntimeLab."""
    return scenario(check_id, cites=cites, profile=profile, role=RUNTIME)
