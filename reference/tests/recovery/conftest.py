"""One coordinator process with test controls for all stories; each has a scope of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # `recovery` is found behind everything that is installed

COMMAND = [sys.executable, "-m", "protocol3.cli", "orchestrator", "serve", "--listen", "127.0.0.1:0"]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from recovery.site import publish  # the path is set above

    return publish(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def coordinator(database: str, store: Path) -> Iterator[str]:
    """Its URL."""
    options = ["--database-url", database, "--store", str(store), "--test-controls", "--log-level", "error"]
    process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.kill()
    process.communicate()


@pytest.fixture
async def site(coordinator: str, store: Path, tmp_path: Path) -> AsyncIterator[Any]:
    from recovery.site import site

    async with site(coordinator, store, tmp_path) as made:
        yield made
