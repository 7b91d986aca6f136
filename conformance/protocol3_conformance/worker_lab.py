"""What a scenario of the worker role works with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from protocol3_conformance.target import Target
from protocol3_conformance.wire.transcript import Transcript


@dataclass(slots=True, kw_only=True)
class WorkerLab:
    """One scenario's view of the worker under test."""

    target: Target
    check_id: str
    transcript: Transcript = field(default_factory=Transcript)

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Target, check_id: str) -> AsyncIterator[WorkerLab]:
        yield cls(target=target, check_id=check_id)
