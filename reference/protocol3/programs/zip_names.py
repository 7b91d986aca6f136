"""Names and paths of archive members (PKG-009, PKG-019…021)."""

from typing import Final

from protocol3.contract import limits
from protocol3.programs.errors import ProgramError

_DEVICES: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))]
)


def check_names(names: list[str]) -> None:
    """Every name by itself, then all of them together. Directories end with a slash. Raises ``integrity``."""
    for name in names:
        check_name(name)
    _check_paths(names)


def check_name(name: str) -> None:
    if not name.isascii() or len(name) > limits.ARCHIVE_NAME_BYTES:
        raise _refused(name, f"names are ASCII of at most {limits.ARCHIVE_NAME_BYTES} bytes")
    if name.startswith("/") or any(character in name for character in "\\:\0"):
        raise _refused(name, "names are relative and hold no backslash, colon or NUL")
    for component in name.removesuffix("/").split("/"):
        _check_component(name, component)


def _check_component(name: str, component: str) -> None:
    if not 1 <= len(component) <= limits.ARCHIVE_COMPONENT_BYTES or component in (".", ".."):
        raise _refused(name, "a path component is empty, too long, . or ..")
    if any(ord(character) < 32 or ord(character) == 127 for character in component):
        raise _refused(name, "a path component holds a control character")
    if component.endswith((".", " ")):
        raise _refused(name, "a path component ends with a dot or a space")
    if component.partition(".")[0].lower() in _DEVICES:
        raise _refused(name, "a path component is a reserved device name")


def _check_paths(names: list[str]) -> None:
    """One spelling per path, also of parents that are only implied; no path is both file and directory (PKG-021)."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() == "ledgence/__init__.py":
            raise _refused(name, "the namespace ledgence belongs to the worker")
        components = name.removesuffix("/").split("/")
        for depth in range(1, len(components) + 1):
            path = "/".join(components[:depth])
            implied = depth < len(components)
            spelling = path + "/" if implied or name.endswith("/") else path
            known = seen.setdefault(path.lower(), spelling)
            if known != spelling:
                raise _refused(name, f"it collides with {known}")


def _refused(name: str, reason: str) -> ProgramError:
    return ProgramError("integrity", f"archive: entry {name[:100]!r}: {reason}")
