"""The `@scenario` decorator: a coroutine with one argument, the lab, becomes a plain function that pytest collects."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from protocol3_conformance.crashes.points import NEED_ALONE, Point
from protocol3_conformance.requirements import requirements
from protocol3_conformance.target import CONDITIONS, COORDINATOR, EXPIRY, PROFILES, RESTART, ROLES, TESTING

Body = Callable[..., Awaitable[None]]
"""Takes the lab of its role: `Lab`, `RuntimeLab` or `WorkerLab`."""
CHECK_ID = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
ATTRIBUTE = "__scenario__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One check. `check_id` is stable over versions and installs; reports and baselines use nothing else."""

    check_id: str
    title: str
    cites: tuple[str, ...]
    profiles: tuple[str, ...]
    role: str
    slow: bool
    body: Body
    point: Point | None = None

    @property
    def deadly(self) -> bool:
        """Whether the target may die in it: on a target that can be restarted, others must have ended before."""
        return RESTART in self.profiles or (self.point is not None and self.point.place in NEED_ALONE)


def scenario(
    check_id: str,
    *,
    cites: list[str],
    profile: str = "core",
    role: str = COORDINATOR,
    slow: bool = False,
    point: Point | None = None,
) -> Callable[[Body], Body]:
    """Declare a check. The docstring's first line is its title.

    `profile` may name several and conditions of the run (see `target`), separated by blanks; the check applies when all
    hold. `role` is what it judges. `slow` starts it first: it waits in real time. `point` is the crash point that it is
    about.
    Raises ValueError for an unknown requirement or profile, or an ill-formed check ID.
    """
    if not CHECK_ID.fullmatch(check_id):
        raise ValueError(f"{check_id!r} is not of the form subject/what-is-checked")
    if unknown := [cited for cited in cites if cited not in requirements()]:
        raise ValueError(f"{check_id} cites requirements that do not exist: {', '.join(unknown)}")
    if not cites:
        raise ValueError(f"{check_id} cites no requirement")
    profiles = tuple(profile.split())
    if unknown := [name for name in profiles if name not in (*PROFILES, *TESTING, *CONDITIONS)]:
        raise ValueError(f"{check_id} names profiles that do not exist: {', '.join(unknown)}")

    if role not in ROLES:
        raise ValueError(f"{check_id} is of no role: {role}")

    def declare(body: Body) -> Body:
        title = (inspect.getdoc(body) or check_id).partition("\n")[0]

        @functools.wraps(body)
        def shell() -> None:
            raise RuntimeError("scenarios are run by the conductor, not called")

        # pytest must see neither a coroutine (another plugin would claim it) nor a parameter (it would seek a fixture).
        shell.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # any function may have it
        declared = Scenario(
            check_id=check_id,
            title=title,
            cites=tuple(cites),
            profiles=profiles,
            role=role,
            slow=slow or EXPIRY in profiles,
            body=body,
            point=point,
        )
        setattr(shell, ATTRIBUTE, declared)
        return shell  # type: ignore[return-value]  # a plain function stands for the coroutine

    return declare
