"""The stages at which a worker is killed (WRK-077), and what may have happened twice then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from recovery.site import EXPECTED, Site

ACQUIRE, RENEW, SETTLE = "/v1/acquisitions", "/v1/renewals", "/v1/settlements"
CONFIRM = "/v1/quiescence-confirmations"
CONTEXT, LOCAL, FORK = "/v1/workflows/activations/context", "/v1/workflows/local-results", "/v1/workflows/forks"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """`rule`: the exchange and place where the coordinator holds the worker; or `gate`, where it waits by itself.

    `twice`: effects whose record was not accepted, so that they may happen again. `crash`: the program ends by itself
    first, and its clean-up is not over. `arrives`: what is held at the place `received` reaches the coordinator while
    the lease of the dead worker still runs, else after its end.
    """

    name: str
    rule: tuple[str, str] | None = None
    gate: str | None = None
    twice: frozenset[str] = field(default_factory=frozenset)
    crash: bool = False
    arrives: bool = False


FIRST = frozenset({"first"})
STAGES = [
    Stage(name="idle", gate="nothing"),
    Stage(name="before the reply to its acquisition", rule=(ACQUIRE, "committed")),
    Stage(name="before its dispatch renewal", rule=(RENEW, "received")),
    Stage(name="before the reply to its dispatch renewal", rule=(RENEW, "committed")),
    Stage(name="reading the context", rule=(CONTEXT, "committed")),
    Stage(name="preparing the package", gate="fetch"),
    Stage(name="starting the program", gate="import"),
    Stage(name="in the handler", gate="handler"),
    Stage(name="after a local effect, before its record", rule=(LOCAL, "received"), twice=FIRST),
    Stage(name="its record arrives after its death", rule=(LOCAL, "received"), arrives=True),
    Stage(name="while its record is written", rule=(LOCAL, "written")),
    Stage(name="after its record", rule=(LOCAL, "committed")),
    Stage(name="before the fork", rule=(FORK, "received")),
    Stage(name="while the fork is written", rule=(FORK, "written")),
    Stage(name="after the fork", rule=(FORK, "committed")),
    Stage(name="after the result, before its settlement", rule=(SETTLE, "received")),
    Stage(name="its settlement arrives after its death", rule=(SETTLE, "received"), arrives=True),
    Stage(name="while its settlement is written", rule=(SETTLE, "written")),
    Stage(name="after its settlement", rule=(SETTLE, "committed")),
    Stage(name="after its settlement, before its confirmation", rule=(CONFIRM, "received"), crash=True),
    Stage(name="after its confirmation", rule=(CONFIRM, "committed"), crash=True),
]


async def play(stage: Stage, site: Site, key: str = "story") -> list[str]:
    """Kill a worker at the stage, let another one finish; what is wrong, in words."""
    folder = site.gate_folder(key)
    if stage.rule is not None:
        await site.rule(*stage.rule, {"kind": "hold"})
    if stage.gate not in (None, "nothing"):
        (folder / f"{stage.gate}.gate").touch()
    if stage.crash:
        (folder / "handler.crash").touch()
        (folder / "clean-up.gate").touch()
    waiting = stage.gate == "nothing"
    if not waiting:
        workflow_id = await site.submit(key)
    asked = await site.rule(ACQUIRE, "received", {"kind": "delay", "ms": 0})
    victim = site.start_worker(key=key, waits_at_import=stage.gate == "import", shutdown_ms=50)
    if waiting:
        await site.struck(asked)
    await reached(stage, site, folder)
    before = site.effects(key)
    await site.kill(victim)
    for gate in folder.glob("*.gate"):
        gate.unlink()
    if stage.arrives:
        await arrival(stage, site)
    lost = stage.rule is not None and stage.rule[1] == "received" and not stage.arrives
    if not lost:
        await site.clear()
    if waiting:
        workflow_id = await site.submit(key)
    await site.pass_leases()
    await site.clear()
    site.start_worker()
    return faults(stage, await site.outcome(workflow_id), before, site.effects(key))


async def arrival(stage: Stage, site: Site) -> None:
    """Let what is held go on to its commit: the leases must not pass before."""
    assert stage.rule is not None
    accepted = await site.rule(stage.rule[0], "committed", {"kind": "delay", "ms": 0})
    await site.post("/testing/v1/faults/release", scope=site.scope)
    await site.struck(accepted)


async def reached(stage: Stage, site: Site, folder: Any) -> None:
    if stage.crash:
        done = await site.rule(SETTLE, "committed", {"kind": "delay", "ms": 0})
        await site.struck(done)
        (folder / "clean-up.gate").unlink()
    if stage.rule is not None:
        await site.held()
    elif stage.gate != "nothing":

        async def look() -> bool:
            return bool((folder / f"{stage.gate}.reached").exists())

        await site.until(look, bool)


def faults(stage: Stage, outcome: Any, before: Counter[str], after: Counter[str]) -> list[str]:
    found = []
    if outcome != {"kind": "succeeded", "output": EXPECTED}:
        found.append(f"ended as {outcome}")
    for name in EXPECTED:
        allowed = 2 if name in stage.twice else 1
        if after[name] != allowed:
            found.append(f"{name} happened {after[name]} times, {before[name]} of them before the kill")
    return found
