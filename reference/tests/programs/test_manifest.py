"""The manifest: shape, values, order of the checks, host platform (PKG-001…007)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import Platform, host_platform, parse_manifest, require_platform

Make = Callable[..., dict[str, Any]]


def kind_of(document: object) -> str:
    with pytest.raises(ProgramError) as caught:
        parse_manifest(json.dumps(document).encode())
    return caught.value.kind


def test_a_valid_manifest_keeps_every_value(manifest: Make) -> None:
    document = manifest()
    parsed = parse_manifest(json.dumps(document).encode())
    assert parsed.to_json() == document
    assert (parsed.program.id, parsed.protocol, parsed.handler) == ("report", 3, "program:handle")


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        ("schema_version", 2, "incompatible"),
        ("schema_version", 1.0, "integrity"),
        ("schema_version", True, "integrity"),
        ("program__id", "Report", "invalid_input"),
        ("program__id", "..", "invalid_input"),
        ("program__id", "a" * 129, "invalid_input"),
        ("program__version", "", "invalid_input"),
        ("program__version", 1, "integrity"),
        ("runtime__kind", "node", "incompatible"),
        ("runtime__python", "3.10", "incompatible"),
        ("runtime__python", "3.011", "incompatible"),
        ("runtime__python", "3.+12", "incompatible"),
        ("runtime__python", "3.x", "invalid_input"),
        ("runtime__python", "3", "invalid_input"),
        ("runtime__python", "3.12.1", "invalid_input"),
        ("runtime__python", "4.12", "invalid_input"),
        ("runtime__protocol", 4, "incompatible"),
        ("runtime__protocol", 0, "incompatible"),
        ("runtime__protocol", "3", "integrity"),
        ("handler", "program", "invalid_input"),
        ("handler", "program:handle:x", "invalid_input"),
        ("handler", "pro-gram:handle", "invalid_input"),
        ("handler", "a..b:handle", "invalid_input"),
        ("handler", "program:handle\n", "invalid_input"),
        ("handler", "ledgence:handle", "integrity"),
        ("handler", "ledgence.worker:handle", "integrity"),
        ("platform__os", "windows", "incompatible"),
        ("platform__arch", "riscv64", "incompatible"),
        ("program__extra", 1, "integrity"),
        ("extra", 1, "integrity"),
        ("platform", None, "integrity"),
    ],
)
def test_each_value_rule_has_its_error_kind(manifest: Make, path: str, value: object, kind: str) -> None:
    """PKG-001, PKG-003 and the table of 4.1 (PKG-086)."""
    assert kind_of(manifest(**{path: value})) == kind


def test_longest_names_and_dotted_handlers_are_accepted(manifest: Make) -> None:
    document = manifest(program__id="a" * 128, handler="a.b_c.D9:_run", runtime__python="3.11", runtime__protocol=1)
    assert parse_manifest(json.dumps(document).encode()).handler == "a.b_c.D9:_run"


@pytest.mark.parametrize("member", ["schema_version", "program", "runtime", "handler", "platform"])
def test_a_missing_member_is_integrity(manifest: Make, member: str) -> None:
    """PKG-001."""
    document = manifest()
    del document[member]
    assert kind_of(document) == "integrity"


def test_repeated_members_and_broken_text_are_integrity() -> None:
    """PKG-001."""
    for raw in (b'{"handler":"a:b","handler":"a:b"}', b"{", b"[]", b"\xff"):
        with pytest.raises(ProgramError) as caught:
            parse_manifest(raw)
        assert caught.value.kind == "integrity"


def test_the_first_violation_in_the_fixed_order_decides(manifest: Make) -> None:
    """PKG-002: program id, version, schema/kind/protocol, python, handler, platform; shape before all of them."""
    wrong = {
        "program__id": ("X", "invalid_input"),
        "schema_version": (2, "incompatible"),
        "runtime__python": ("3", "invalid_input"),
        "platform__os": ("windows", "incompatible"),
    }
    later = dict(wrong)
    for path, (_, kind) in wrong.items():
        assert kind_of(manifest(**{name: value for name, (value, _) in later.items()})) == kind, path
        del later[path]
    assert kind_of(manifest(handler="x", platform__os="windows")) == "invalid_input"
    assert kind_of(manifest(program__version="V", runtime__protocol=9)) == "invalid_input"
    assert kind_of(manifest(runtime__python="3.10", handler="x")) == "incompatible"
    assert kind_of(manifest(program__id="X", extra=1)) == "integrity"


def test_a_package_for_another_platform_is_incompatible_here(manifest: Make) -> None:
    """PKG-006."""
    parsed = parse_manifest(json.dumps(manifest()).encode())
    require_platform(parsed, host_platform())
    other = Platform(os="macos" if parsed.platform.os == "linux" else "linux", arch=parsed.platform.arch)
    with pytest.raises(ProgramError) as caught:
        require_platform(parsed, other)
    assert caught.value.kind == "incompatible"
