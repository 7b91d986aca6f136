"""Submissions of both kinds: replay before resolution before acceptance (TASK-109, TASK-214, WF-022)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Final, TypeVar

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.contract.models.submission import SubmitInput
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.coordinator.budget import computed
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Fresh, Rejected, Replay, Verdict
from protocol3.programs.errors import ProgramError
from protocol3.store.connections import Reads
from protocol3.store.transition import Load

Loaded = TypeVar("Loaded")

#: Seconds for which the look at the key serves the acceptance as well. What is accepted is dated by its load, so a
#: program store that takes its time must not date it back, behind what was listed meanwhile (DISC-020): no longer than
#: any decision may be under way between its load and its commit.
FRESH_S: Final = 0.01


async def accept(
    services: Services,
    input: SubmitInput,
    key: Hashable,
    *,
    load: Load[Loaded],
    known: Callable[[Loaded], Verdict | None],
    submit: Callable[[Loaded, Descriptor, bytes, Fresh], Verdict],
) -> Any:
    """The reply of a submission: what its key stands for already, or else what `submit` makes of the encoded data.

    A replay needs no program store (WF-016), nor its data. The insertion of the key guards the acceptance, so a
    competitor that was faster is a miss, and its binding counts; even if the resolution failed (WF-017).
    """

    async def look() -> tuple[Loaded, Any]:
        async with services.submissions, services.transitions.reading() as reads:
            found = await load(reads)
        return found, _reply(known(found))

    found, reply = await look()
    if reply is not None:
        return reply
    reusing = _reusing(found, load)
    data = await computed(lambda: encode(input.data))
    try:
        descriptor = await resolve(services, input.program)
    except Refusal:
        _, competitor = await look()
        if competitor is None:
            raise
        return competitor
    return await services.transitions.run(
        key, reusing, lambda loaded, fresh: submit(loaded, descriptor, data, fresh), turn=services.submissions
    )


def _reply(verdict: Verdict | None) -> Any:
    """The reply of a key that is taken, which is never None; None for a free key."""
    if isinstance(verdict, Rejected):
        raise Refusal(verdict.code, verdict.message)
    return verdict.reply if isinstance(verdict, Replay) else None


def _reusing(loaded: Loaded, load: Load[Loaded]) -> Load[Loaded]:
    """The same load, whose first call brings what was loaded just now; later ones follow a miss and look again."""
    now = asyncio.get_running_loop().time
    fresh_until = now() + FRESH_S
    left = [loaded]

    @wraps(load)
    async def reusing(reads: Reads) -> Loaded:
        if left and now() < fresh_until:
            return left.pop()
        left.clear()
        return await load(reads)

    return reusing


async def resolve(services: Services, program: ProgramRef) -> Descriptor:
    """The published descriptor; Refusal by the kind of the store's failure (TASK-102)."""
    try:
        return await services.programs.resolve(program)
    except ProgramError as error:
        if error.kind == "not_found":
            raise Refusal("not_found") from None
        if error.kind in ("invalid_input", "incompatible"):
            raise Refusal("invalid_input", "body.input.program: the program store refuses it") from None
        raise Refusal("unavailable", "the program store could not answer") from None
