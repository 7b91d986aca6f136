"""Who the database runs as. PostgreSQL refuses to run as root, so root hands it to an unprivileged account."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from protocol3.store.embedded.errors import EmbeddedPostgresError

# `nobody` is the last resort: other services that run as nobody could enter the data folder.
CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An entry of the password database (initdb needs one, a bare number is not enough)."""

    name: str
    uid: int
    gid: int


def account_for(data: Path) -> Account | None:
    """The account to switch to, None for "run as we are". Data that exists keeps its owner.

    Raises EmbeddedPostgresError when the data belongs to somebody else, or root has no account to hand over to.
    """
    owner = data.stat().st_uid if data.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise EmbeddedPostgresError(
                f"{data} belongs to the user {_name(owner)}: run as that user, or choose another folder with --data-dir"
            )
        return None
    try:
        entries = [pwd.getpwuid(owner)] if owner else [entry for name in CANDIDATES if (entry := _entry(name))]
    except KeyError:
        raise EmbeddedPostgresError(f"{data} belongs to the user id {owner}, which this system does not know") from None
    if not entries:
        raise EmbeddedPostgresError(
            "PostgreSQL does not run as root, and this system has neither a user postgres nor nobody to run it: "
            "add one (useradd --system postgres), run as an ordinary user, or give --database-url"
        )
    return Account(name=entries[0].pw_name, uid=entries[0].pw_uid, gid=entries[0].pw_gid)


def can_enter(folder: Path, account: Account) -> bool:
    """Whether the permission bits let `account` pass through `folder` and all its parents."""
    return all(_may_pass(place, account) for place in (folder, *folder.parents))


def _may_pass(place: Path, account: Account) -> bool:
    status = place.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == account.gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _name(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid or 0).pw_name
    except KeyError:
        return str(uid)
