"""What an activation has started ends with it, one way or the other (HLP-112 … HLP-116)."""

from __future__ import annotations

import asyncio

from ._errors import WorkflowError
from ._forks import Forks
from ._journal import Journal
from ._requests import Requests


async def drain(requests: Requests, journal: Journal, forks: Forks) -> None:
    """Wait for every step and fork, also those started meanwhile; then raise what no one has seen."""
    await _settle(journal, forks)
    requests.refuse_if_fatal()
    if journal.cancelled:
        raise WorkflowError("the function of a local step was cancelled")
    failure = journal.unobserved_failure()
    if failure is not None:
        raise failure


async def abandon(journal: Journal, forks: Forks) -> None:
    """Cancel what runs and wait for it; only a request on the wire is completed."""
    journal.close()
    forks.close()
    await _settle(journal, forks)


async def _settle(journal: Journal, forks: Forks) -> None:
    while pending := journal.pending() + forks.pending():
        await asyncio.wait(pending)
