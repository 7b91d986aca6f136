"""What is judged, and with how much patience."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from protocol3_conformance.bounds import bound
from protocol3_conformance.commands import RuntimeCommand, WorkerCommand
from protocol3_conformance.crashes.power import Power
from protocol3_conformance.wire.exchange import RequestIds
from protocol3_conformance.wire.peer import Endpoint

PROFILES = ("core", "forks", "subworkflows", "discovery")
"""What a target claims unless it says otherwise."""
TESTING = VIRTUAL_TIME, FAULTS = ("virtual-time", "faults")
"""What a target for tests may claim beside: a clock that the suite moves, and disturbances at its command."""
CLAIMABLE = (*PROFILES[1:], *TESTING)
"""What it may claim beside core, which is not optional."""

COORDINATOR, WORKER, RUNTIME = ROLES = ("coordinator", "worker", "runtime")
"""What can be judged: a service at a URL, a worker or a program process started by a command."""

CONDITIONS = FIXED_SCOPE, ANY_SCOPE, EXPIRY, RESTART, TOGETHER = (
    "fixed-scope",
    "any-scope",
    "expiry",
    "restart",
    "together",
)
"""Conditions of the run beside the profiles: whether one scope is served, whether leases may run out meanwhile, whether
the target can be killed and started again, whether a service and a worker are named with a store that both read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Every wait of the suite in one place, in seconds, times one factor (`--patience`)."""

    factor: float = 1.0

    @property
    def exchange(self) -> float:
        """One exchange: the service has 30 s (HTTP-080), and a moment for the way."""
        return (bound("EXCHANGE_MS") / 1000 + 2) * self.factor

    @property
    def progress(self) -> float:
        """Until a background step of the service must have become visible; no bound is published, so it is wide."""
        return 20 * self.factor

    @property
    def restart(self) -> float:
        """From a start command until the target is ready."""
        return 60 * self.factor

    @property
    def scenario(self) -> float:
        """One whole scenario, which may see a lease and a deadline run out."""
        return 240 * self.factor

    @property
    def poll_ms(self) -> int:
        """One long poll; short, because the suite asks again until `progress` is over."""
        return 2000


NOWHERE = Endpoint(url="", host="", port=0, prefix="")
"""The endpoint of a run that judges no coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is under test: a service at `endpoint` (NOWHERE if none is judged), a `runtime`, a `worker`.

    `scope` is its fixed (tenant, namespace), or None when it serves any scope. `program` is an ID and version that its
    program store resolves. `queue` begins the names of all queues. `name` and `version` are what its owner says of it.
    `commands` are those of its description; `power` those that kill it and start it again, None where they do not
    suffice. `store` is the folder of its program store, if the suite may publish there. `examples` is how many
    histories each stateful check plays, `exports` the folder for scripts of those that fail. `run` tells this run's
    names apart from those of every other run.
    """

    endpoint: Endpoint
    profiles: frozenset[str]
    scope: tuple[str, str] | None
    program: tuple[str, str]
    patience: Patience
    seed: int
    with_expiry: bool = False
    concurrency: int = 24
    examples: int = 15
    exports: Path = Path("protocol3-failures")
    queue: str = "q"
    name: str | None = None
    version: str | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    power: Power | None = None
    store: Path | None = None
    runtime: RuntimeCommand | None = None
    worker: WorkerCommand | None = None
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    ids: RequestIds = field(default_factory=RequestIds)

    @property
    def moves_time(self) -> bool:
        """Whether a scenario may move its clock: its scope is its own, and the target offers it."""
        return self.scope is None and VIRTUAL_TIME in self.profiles

    @property
    def obeys(self) -> bool:
        """Whether fault rules may be set: they are offered, and a rule of one scenario strikes in no other."""
        return self.scope is None and FAULTS in self.profiles

    @property
    def place(self) -> str:
        """What is judged, in one line for people."""
        started = [shlex.join(one.words) for one in (self.runtime, self.worker) if one]
        return "; ".join([*([self.endpoint.url] if self.endpoint.url else []), *started])

    @property
    def roles(self) -> frozenset[str]:
        """What this run judges."""
        judged = {COORDINATOR: self.endpoint is not NOWHERE, WORKER: self.worker, RUNTIME: self.runtime}
        return frozenset(role for role, given in judged.items() if given)

    def renamed(self) -> Target:
        """The same target; what a check names there is new, so that it can be run once more."""
        return replace(self, run=secrets.token_hex(4))

    def claims(self, profile: str) -> bool:
        """Whether a scenario that needs this profile or condition applies."""
        if profile in (FIXED_SCOPE, ANY_SCOPE):
            return (self.scope is not None) == (profile == FIXED_SCOPE)
        if profile == RESTART:
            return self.power is not None
        if profile == TOGETHER:
            return {COORDINATOR, WORKER} <= self.roles and self.store is not None
        if profile == VIRTUAL_TIME:
            return self.moves_time
        if profile == FAULTS:
            return self.obeys
        return self.with_expiry or self.moves_time if profile == EXPIRY else profile in self.profiles
