"""The engines beside ours: how each is installed in an environment of its own, and what its driver is told.

Locked in `requirements/bench-*.txt` and, for what comes from npm, in `tools/bench/npm/package-lock.json`.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment
import npm_packages

ROOT = Path(__file__).resolve().parent.parent.parent
NPM = Path(__file__).parent / "npm"
NPM_PLACE = ROOT / ".envs/bench-npm"


class NotHere(Exception):
    """A peer cannot be installed on this machine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """`database`: it needs a PostgreSQL, and gets one like ours. `durability`: what a reader has to know of it."""

    about: str
    durability: str
    database: bool = True


PEERS = {
    "restate": Peer(
        about="Restate server 1.7.12 with its defaults, Python SDK 1.3.0 on hypercorn",
        durability="RocksDB's log with fsync",
        database=False,
    ),
    "dbos": Peer(
        about="DBOS 3.4.0, client and queue, polls of 10 ms",
        durability="commits of PostgreSQL 18, fsync on",
    ),
    "absurd": Peer(
        about="Absurd 0.4.0, polls of 5 ms",
        durability="commits of PostgreSQL 18, fsync on",
    ),
}


def install(name: str) -> None:
    """Bring the peer's environments to the state of their lock files. Raises NotHere."""
    try:
        environment.ensure(_folder(name))
        if name == "restate":
            _install_npm()
    except (environment.EnvironmentFailure, OSError, subprocess.CalledProcessError) as failure:
        raise NotHere(str(failure)) from failure


def python(name: str) -> Path:
    return _folder(name) / "bin/python"


def given(name: str, folder: Path) -> dict[str, Any]:
    """What the driver is told besides the address of its database."""
    return {"server": str(_restate_server()), "folder": str(folder)} if name == "restate" else {}


def _folder(name: str) -> Path:
    return ROOT / f".envs/bench-{name}"


def _restate_server() -> Path:
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    package = f"restate-server-{sys.platform}-{machine}"
    return NPM_PLACE / "node_modules/@restatedev" / package / "bin/restate-server"


def _install_npm() -> None:
    if npm_packages.ensure(NPM, NPM_PLACE) is None:
        raise NotHere("this machine has no node and npm, which carry the server")
    if not _restate_server().exists():
        raise NotHere(f"there is no Restate server for {sys.platform} on {platform.machine()}")
