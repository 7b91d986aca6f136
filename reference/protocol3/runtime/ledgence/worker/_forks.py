"""Forks: branches of the same package that are registered while the activation runs (HLP-105 … HLP-110)."""

from __future__ import annotations

import asyncio
from typing import Any

from ._children import Children
from ._errors import WorkflowError
from ._exact import canonical
from ._limits import FORK_REQUEST_BYTES, RUNTIME_DEPTH
from ._references import ForkRef
from ._requests import Requests


class Registration:
    """One fork key: the canonical request, the reference to hand out, and the task that registers it."""

    __slots__ = ("reference", "request", "task")

    def __init__(self, request: bytes, reference: ForkRef, task: asyncio.Task[None]) -> None:
        self.request = request
        self.reference = reference
        self.task = task


class Forks:
    __slots__ = ("_children", "_registrations", "_requests")

    def __init__(self, requests: Requests, children: Children) -> None:
        self._requests = requests
        self._children = children
        self._registrations: dict[str, Registration] = {}

    async def register(self, key: str, branches: list[dict[str, Any]], context: object) -> ForkRef:
        """Register, or find the equal registration; returns after its acknowledgement."""
        what = f"fork {key!r}"
        fork = {"key": key, "branches": branches}
        request = canonical(fork, what, limit=FORK_REQUEST_BYTES, depth=RUNTIME_DEPTH)
        registration = self._registrations.get(key)
        if registration is None:
            keys = [branch["key"] for branch in branches]
            if len(set(keys)) != len(keys):
                raise WorkflowError(f"{what}: two branches have the same key")
            self._children.claim_branches(key, keys)
            expected = {"committed": True, "key": key, "branch_keys": keys}
            task = asyncio.ensure_future(self._requests.send("workflow.fork", request, expected))
            registration = Registration(request, ForkRef(key, tuple(keys), context), task)
            self._registrations[key] = registration
        elif registration.request != request:
            raise WorkflowError(f"{what}: already registered with other branches")
        await asyncio.shield(registration.task)
        return registration.reference

    def is_registered(self, fork: object) -> bool:
        """Did `register` of this activation return this very object? (HLP-110)"""
        return any(fork is known.reference and known.task.done() for known in self._registrations.values())

    def pending(self) -> list[asyncio.Future[Any]]:
        return [known.task for known in self._registrations.values() if not known.task.done()]

    def close(self) -> None:
        """Cancel registrations; one on the wire still waits for its reply."""
        for task in self.pending():
            task.cancel()
