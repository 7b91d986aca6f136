"""How a race becomes checks: both operations at once, and in both orders where the target can be held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.contest import Contest, Side, forced, free, places
from protocol3_conformance.roles.worker import Worker
from protocol3_conformance.scenario import Body, scenario

Story = Callable[[Lab], Awaitable[Contest]]
SETTLE, CANCEL, EVENT = "/v1/settlements", "/v1/workflows/cancel", "/v1/workflows/events"
FORK, RECORD = "/v1/workflows/forks", "/v1/workflows/local-results"
APPLY, END = "decision.apply", "completion.deliver"
ROUNDS = 3
"""How often both go at once in a free run."""
ONCE, RETRIED = {"max_attempts": 1, "retry_delay_ms": 0}, {"max_attempts": 3, "retry_delay_ms": 0}


def races_of(module: dict[str, Any]) -> Callable[..., Callable[[Story], Story]]:
    """The decorator `race` of a module of checks; it puts them into that module's names, where pytest finds them.

    `race(name, cites=..., profile=..., orders=...)` declares three checks: free, and forced in both orders. `orders` is
    what the judge must say when the first side, or the second, came first; None: whatever it accepts.
    """

    def race(
        name: str, *, cites: list[str], profile: str = "core", orders: tuple[str | None, str | None] | None = None
    ) -> Callable[[Story], Story]:
        def declare(story: Story) -> Story:
            for check_id, conditions, body in checks_of(name, story, profile, orders):
                module["test_" + check_id.replace("-", "_")] = scenario(
                    f"contests/{check_id}", cites=cites, profile=conditions
                )(body)
            return story

        return declare

    return race


def checks_of(
    name: str, story: Story, profile: str, orders: tuple[str | None, str | None] | None
) -> Iterator[tuple[str, str, Body]]:
    """ID, profiles and body of the checks of a race."""
    title = (story.__doc__ or name).partition("\n")[0].removesuffix(".")

    async def at_once(lab: Lab) -> None:
        for _ in range(ROUNDS):
            await free(await story(lab))

    def in_order(first: int) -> Body:
        async def body(lab: Lab) -> None:
            contest = await story(lab)
            held = places(contest, first)
            for place in held:
                if place != held[0]:
                    contest = await story(lab)
                with lab.case(place):
                    saw = await forced(lab, contest, first, place)
                    wanted = (orders or (None, None))[first] or saw
                    assert saw == wanted, f"{contest.sides[first].name} came first, but the end says {saw}"

        body.__doc__ = f"{title} (in a forced order)."
        return body

    at_once.__doc__ = f"{title} (at once)."
    yield name, profile, at_once
    for first, word in enumerate(("one-way", "other-way")):
        yield f"{name}-{word}", f"{profile} faults", in_order(first)


async def begun(lab: Lab, **submission: Any) -> tuple[Worker, Activation]:
    """A worker and the first activation of a workflow."""
    worker = await lab.worker()
    await lab.client.workflow(**submission)
    return worker, await worker.activation()


async def with_child(lab: Lab, **submission: Any) -> tuple[Worker, Activation, Claim]:
    """A worker, the second activation of a workflow, and its child `c` in an attempt."""
    worker, first = await begun(lab, **submission)
    await first.go_on(commands=[first.command("c")])
    child = await (await lab.worker(queue=lab.child_queue)).running()
    return worker, await worker.activation(), child


async def waiting(lab: Lab) -> tuple[Worker, Activation]:
    """A workflow that waits for the event `go`."""
    worker, first = await begun(lab)
    await first.wait_event("go")
    await lab.client.workflow_until(first.workflow_id, "waiting")
    return worker, first


def cancelling(lab: Lab, workflow_id: str, step: str | None = None) -> Side:
    return Side(name="cancel", act=lambda: lab.client.cancel_workflow(workflow_id), path=CANCEL, step=step)


def sending(lab: Lab, workflow_id: str, event: Any, key: str = "go", name: str = "event") -> Side:
    return Side(name=name, act=lambda: lab.client.send_event(workflow_id, key, event), path=EVENT)
