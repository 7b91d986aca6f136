"""The coordinator of these tests has test controls."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
async def services(controlled: Any) -> Any:
    return controlled
