"""kill -9 of a worker at every stage of an attempt: another one finishes the workflow (WRK-077, DLV-204, LOC-004)."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.stages import STAGES, Stage, play


@pytest.mark.parametrize("stage", [pytest.param(stage, id=stage.name) for stage in STAGES])
async def test_another_worker_finishes_what_a_killed_one_began(site: Any, stage: Stage) -> None:
    """WRK-077: a local function runs again only if its record was not accepted, a fork never."""
    assert await play(stage, site) == []
