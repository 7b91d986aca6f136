import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

Launch = Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new folder that every account may enter (pytest's own tmp_path is private to its user)."""
    path = Path(tempfile.mkdtemp(prefix="p3-", dir="/tmp")).resolve()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Run launch.py; returns the process and the line it printed. Whatever is left at the end is stopped."""
    running: list[subprocess.Popen[str]] = []

    def start(base: Path, *flags: str, environment: dict[str, str] | None = None) -> Any:
        script = Path(__file__).with_name("launch.py")
        process = subprocess.Popen(
            [sys.executable, script, base, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        running.append(process)
        assert process.stdout is not None
        return process, json.loads(process.stdout.readline())

    yield start
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=30)
        process.kill()


@pytest.fixture
def query() -> Callable[..., Any]:
    """Run statements on a new connection; returns the last one's value."""

    async def run(where: dict[str, Any], *statements: str) -> Any:
        connection = await asyncpg.connect(**{name: where[name] for name in ("host", "port", "user", "database")})
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return run
