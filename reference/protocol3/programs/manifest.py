"""The package manifest ``ledgence-program.json`` (PKG-001…007)."""

import platform
import re
from dataclasses import dataclass
from typing import Final, TypeVar

from protocol3.contract import limits
from protocol3.contract.models.common import ProgramRef
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode
from protocol3.contract.text import program_name
from protocol3.programs.errors import ProgramError, ProgramErrorKind

MANIFEST_NAME: Final = "ledgence-program.json"

_IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_HANDLER: Final = re.compile(rf"{_IDENTIFIER}(\.{_IDENTIFIER})*:{_IDENTIFIER}", re.ASCII)
_PYTHON: Final = re.compile(r"3\.([+-]?[0-9]+)", re.ASCII)
_OLDEST_MINOR: Final = 11
_SYSTEMS: Final = ("linux", "macos")
_MACHINES: Final = ("x86_64", "aarch64")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Operating system and machine a package is built for."""

    os: str
    arch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A valid manifest, whatever its protocol (PKG-005).

    ``python`` is ``3.<minor>``, ``protocol`` is 1, 2 or 3, ``handler`` is ``module:function``.
    """

    program: ProgramRef
    python: str
    protocol: int
    handler: str
    platform: Platform

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "schema_version": 1,
            "program": {"id": self.program.id, "version": self.program.version},
            "runtime": {"kind": "python", "python": self.python, "protocol": self.protocol},
            "handler": self.handler,
            "platform": {"os": self.platform.os, "arch": self.platform.arch},
        }


def host_platform() -> Platform:
    """The platform of this host in manifest words (PKG-078); an unsupported host keeps its own words."""
    system, machine = platform.system(), platform.machine()
    return Platform(
        os={"Darwin": "macos", "Linux": "linux"}.get(system, system.lower()),
        arch={"arm64": "aarch64", "aarch64": "aarch64", "x86_64": "x86_64"}.get(machine, machine.lower()),
    )


def require_platform(manifest: Manifest, host: Platform) -> None:
    """A package for another platform is ``incompatible`` on this host (PKG-006)."""
    wanted = manifest.platform
    if wanted != host:
        raise ProgramError(
            "incompatible",
            f"the package is for {wanted.os}/{wanted.arch}, this host is {host.os}/{host.arch}",
        )


def parse_manifest(raw: bytes) -> Manifest:
    """Shape first (PKG-001, ``integrity``), then the value rules in the order of PKG-002 (PKG-086)."""
    if len(raw) > limits.MANIFEST_BYTES:
        raise ProgramError("integrity", f"the manifest is larger than {limits.MANIFEST_BYTES} bytes")
    try:
        document = decode(raw)
    except InvalidJson as error:
        raise ProgramError("integrity", f"manifest: {error}") from None
    root = _members(document, "manifest", ("schema_version", "program", "runtime", "handler", "platform"))
    program = _members(root["program"], "program", ("id", "version"))
    runtime = _members(root["runtime"], "runtime", ("kind", "python", "protocol"))
    target = _members(root["platform"], "platform", ("os", "arch"))
    schema = _typed(root["schema_version"], int, "schema_version")
    identity, version = _typed(program["id"], str, "program.id"), _typed(program["version"], str, "program.version")
    kind, python = _typed(runtime["kind"], str, "runtime.kind"), _typed(runtime["python"], str, "runtime.python")
    protocol = _typed(runtime["protocol"], int, "runtime.protocol")
    handler = _typed(root["handler"], str, "handler")
    system, machine = _typed(target["os"], str, "platform.os"), _typed(target["arch"], str, "platform.arch")

    try:
        program_name(identity, "program.id")
        program_name(version, "program.version")
    except Refusal as refusal:
        raise ProgramError("invalid_input", str(refusal.message)) from None
    _require(schema == 1, "incompatible", "schema_version: only 1 is supported")
    _require(kind == "python", "incompatible", "runtime.kind: only python is supported")
    _require(protocol in (1, 2, 3), "incompatible", "runtime.protocol: 1, 2 or 3")
    _check_python(python)
    _require(_HANDLER.fullmatch(handler) is not None, "invalid_input", "handler: module:function of ASCII identifiers")
    _require(system in _SYSTEMS, "incompatible", "platform.os: linux or macos")
    _require(machine in _MACHINES, "incompatible", "platform.arch: x86_64 or aarch64")
    _require(not _is_reserved(handler), "integrity", "handler: the module name ledgence belongs to the worker")
    return Manifest(
        program=ProgramRef(id=identity, version=version),
        python=python,
        protocol=protocol,
        handler=handler,
        platform=Platform(os=system, arch=machine),
    )


def _check_python(text: str) -> None:
    """``3.<minor>``; the process compares it with its interpreter (PKG-007)."""
    match = _PYTHON.fullmatch(text)
    if match is None:
        raise ProgramError("invalid_input", "runtime.python: 3.<minor>")
    digits = match[1]
    canonical = digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    _require(canonical and len(digits) <= 5, "incompatible", "runtime.python: a plain decimal minor version")
    _require(int(digits) >= _OLDEST_MINOR, "incompatible", f"runtime.python: at least 3.{_OLDEST_MINOR}")


def _is_reserved(handler: str) -> bool:
    """PKG-003: the worker's own helper would be shadowed or never found."""
    module = handler.partition(":")[0]
    return module == "ledgence" or module.startswith("ledgence.")


def _members(value: JsonValue, at: str, names: tuple[str, ...]) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ProgramError("integrity", f"{at}: must be an object")
    for name in names:
        _require(name in value, "integrity", f"{at}: {name} is missing")
    for name in value:
        _require(name in names, "integrity", f"{at}: unknown member {name!r}")
    return value


def _typed(value: JsonValue, kind: type[T], at: str) -> T:
    if type(value) is not kind:
        raise ProgramError("integrity", f"{at}: must be {'an integer' if kind is int else 'a string'}")
    return value


def _require(holds: bool, kind: ProgramErrorKind, message: str) -> None:
    if not holds:
        raise ProgramError(kind, message)
