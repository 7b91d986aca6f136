"""``protocol3 program``: output, exit codes, the example (PKG-049, PKG-053, PKG-081)."""

import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from protocol3.cli.programs import group
from protocol3.programs.build import build_package
from protocol3.programs.manifest import host_platform


def run(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_publish_prints_the_descriptor_as_one_line(source: Callable[..., Path], tmp_path: Path) -> None:
    """PKG-049, PKG-052."""
    root, store = source(), tmp_path / "store"
    first = run("publish", "--source", root, "--store", store)
    assert (first.exit_code, first.stdout.count("\n")) == (0, 1)
    assert json.loads(first.stdout) == build_package(root).descriptor.to_json()
    again = run("publish", "--source", root, "--store", store)
    assert (again.exit_code, again.stdout) == (0, first.stdout)
    assert "already" in again.stderr


def test_a_conflict_is_exit_1_and_a_bad_package_exit_2(source: Callable[..., Path], tmp_path: Path) -> None:
    """PKG-053, PKG-088: nothing on stdout, the kind and what to do on stderr."""
    store = tmp_path / "store"
    run("publish", "--source", source(), "--store", store)
    conflict = run("publish", "--source", source({"new": ""}), "--store", store)
    assert (conflict.exit_code, conflict.stdout) == (1, "")
    assert "change the version" in conflict.stderr
    bad = run("publish", "--source", source(handler="x"), "--store", store)
    assert (bad.exit_code, bad.stdout) == (2, "")
    refusal = json.loads(bad.stderr)
    assert refusal["code"] == "invalid_input"
    assert refusal["message"].startswith("handler")
    assert run("publish", "--source", tmp_path / "absent", "--store", store).exit_code == 2
    assert run("publish", "--store", store).exit_code == 2


def test_every_failure_says_what_to_do_next(source: Callable[..., Path], tmp_path: Path) -> None:
    """The sentence names what is wrong; `next` is there whatever it was."""
    store, blocked = tmp_path / "store", tmp_path / "file"
    blocked.touch()
    run("publish", "--source", source(), "--store", store)
    failures = {
        "invalid_input": run("check", source(handler="x")),
        "not there": run("publish", "--source", tmp_path / "absent", "--store", store),
        "integrity": run("publish", "--source", source({"new": ""}), "--store", store),
        "io": run("publish", "--source", source(), "--store", blocked / "store"),
        "incompatible": run("example", "--directory", tmp_path / "example", "--python", "/bin/false"),
        "exists": run("example", "--directory", tmp_path),
    }
    for what, failed in failures.items():
        shown = json.loads(failed.stderr.splitlines()[-1])
        assert shown.get("next"), (what, shown)
    assert "version" in json.loads(failures["integrity"].stderr)["next"]
    assert "--python" in json.loads(failures["incompatible"].stderr)["next"]


def test_check_validates_without_publishing(source: Callable[..., Path]) -> None:
    root = source()
    result = run("check", root)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["manifest"] == json.loads((root / "ledgence-program.json").read_text())
    assert run("check", source({"con": ""})).exit_code == 2


WORKFLOW = """
from enum import StrEnum
from ledgence.worker.workflow import Workflow

class Entry(StrEnum):
    START = "start"
    NEXT = "next"

flow = Workflow(Entry)

@flow.entrypoint(Entry.START, default=True)
async def start(event, ctx):
    return ctx.complete(1)
"""
MARKED = "import os\nopen(os.environ['MARK'], 'a').write('imported ')\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_check_imports_the_handler_in_a_process_of_a_worker_and_does_not_call_it(
    source: Callable[..., Path], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-031: once; `--no-start` runs nothing of the package (PKG-027). Nothing is left behind."""
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    root = source({"program.py": MARKED + "print('loading')\ndef handle(event):\n    open('called', 'w')\n"})
    started = run("check", root)
    assert (started.exit_code, json.loads(started.stdout)["ready"]) == (0, True)
    assert "loading" in started.stderr
    assert (tmp_path / "mark").read_text() == "imported "
    valid = run("check", "--no-start", root)
    assert (valid.exit_code, json.loads(valid.stdout)["ready"]) == (0, False)
    assert (tmp_path / "mark").read_text() == "imported "
    assert not list(folder.iterdir())
    assert not (root / "called").exists()


@pytest.mark.parametrize(
    ("program", "told", "written"),
    [
        ("def handle(event:\n", "exit status 70", "SyntaxError"),
        ("import not_vendored\n", "exit status 70", "No module named 'not_vendored'"),
        ("def handel(event):\n    pass\n", "exit status 70", "program:handle does not exist"),
        ("handle = 1\n", "exit status 70", "program:handle is int, no callable"),
        ("raise SystemExit(3)\n", "exit status 3", ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV", ""),
        ("import os\nos.closerange(0, 64)\nimport time\ntime.sleep(600)\n", "closed", ""),
        (WORKFLOW + "handle = flow.build()\n", "exit status 70", "no handler for NEXT"),
        (WORKFLOW + "handle = flow\n", "exit status 70", "name what its build() returns"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the way a process ended is not told")
def test_check_says_why_a_program_would_not_start(
    source: Callable[..., Path], folder: Path, program: str, told: str, written: str
) -> None:
    """RUN-019, RUN-020, WRK-057: the worker's words, what the program wrote, exit 2, nothing left."""
    result = run("check", source({"program.py": program}, runtime__protocol=3))
    assert (result.exit_code, result.stdout) == (2, "")
    failure = json.loads(result.stderr.splitlines()[-1])
    assert failure["code"] == "runtime"
    assert told in failure["message"]
    assert "startup" in failure["next"]
    assert written in result.stderr
    assert not list(folder.iterdir())


def test_check_takes_the_interpreter_of_the_worker(source: Callable[..., Path], tmp_path: Path) -> None:
    """RUN-016: one that cannot run programs is refused; a package for another one is valid and not started."""
    refused = run("check", source(), "--python", tmp_path / "absent")
    assert (refused.exit_code, json.loads(refused.stderr)["code"]) == (2, "invalid_input")
    other = run("check", source(runtime__python="3.99"))
    assert (other.exit_code, json.loads(other.stdout)["ready"]) == (0, False)


def test_the_example_can_be_published_as_it_is(tmp_path: Path) -> None:
    """PKG-081: id, version, protocol, host platform and two tasks with distinct identities."""
    directory, store = tmp_path / "deep/example", tmp_path / "store"
    result = run("example", "--directory", directory, "--python", sys.executable)
    assert result.exit_code == 0
    written = json.loads(result.stdout)
    assert written == {
        "program": str(directory / "program"), "tasks": str(directory / "tasks.json"), "python": sys.executable,
    }  # fmt: skip
    assert {path.name for path in (directory / "program").iterdir()} == {"ledgence-program.json", "program.py"}
    manifest = build_package(directory / "program").manifest
    assert (manifest.program.id, manifest.program.version, manifest.protocol) == ("hello", "1.0.0", 2)
    assert manifest.python == ".".join(platform.python_version_tuple()[:2])
    tasks = json.loads((directory / "tasks.json").read_text())
    assert len(tasks) == len({task["event"]["ldgattemptid"] for task in tasks}) == 2
    assert run("publish", "--source", directory / "program", "--store", store).exit_code == 0


def test_the_example_refuses_an_existing_directory(tmp_path: Path) -> None:
    """PKG-081."""
    before = sorted(tmp_path.iterdir())
    assert run("example", "--directory", tmp_path, "--python", sys.executable).exit_code == 2
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("script", ["exit 1", 'echo \'["PyPy", "3.12"]\'', 'echo \'["CPython", "3.10"]\'', "echo x"])
def test_the_example_needs_a_suitable_interpreter(tmp_path: Path, script: str) -> None:
    """PKG-081: nothing is written."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    result = run("example", "--directory", tmp_path / "example", "--python", python)
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (tmp_path / "example").exists()


def without_manifest(root: Path) -> None:
    (root / "ledgence-program.json").unlink()


def broken_manifest(root: Path) -> None:
    (root / "ledgence-program.json").write_text('{"schema_version": 1,')


def link(root: Path) -> None:
    (root / "link.py").symlink_to("program.py")


def pipe(root: Path) -> None:
    os.mkfifo(root / "pipe")


def reserved(root: Path) -> None:
    (root / "ledgence").mkdir()
    (root / "ledgence/__init__.py").touch()


def two_that_collide(root: Path) -> None:
    (root / "Program.py").touch()


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (without_manifest, "integrity"),
        (broken_manifest, "integrity"),
        (link, "integrity"),
        (pipe, "integrity"),
        (reserved, "integrity"),
        (two_that_collide, "integrity"),
        ({"schema_version": 2}, "incompatible"),
        ({"runtime__kind": "ruby"}, "incompatible"),
        ({"runtime__protocol": 4}, "incompatible"),
        ({"runtime__python": "2.7"}, "invalid_input"),
        ({"handler": "program"}, "invalid_input"),
        ({"platform__os": "windows"}, "incompatible"),
        ({"extra": 1}, "integrity"),
    ],
)
def test_check_and_publish_refuse_what_a_worker_would(
    source: Callable[..., Path], tmp_path: Path, wrong: Any, kind: str
) -> None:
    """PKG-041, PKG-047: the same kind, a sentence, what to do next, and nothing is stored."""
    root = source(**wrong) if isinstance(wrong, dict) else source()
    if callable(wrong):
        wrong(root)
    for command in (["check", root], ["publish", "--source", root, "--store", tmp_path / "store"]):
        result = run(*command)
        told = json.loads(result.stderr)
        assert (result.exit_code, result.stdout, told["code"]) == (2, "", kind), told
        assert told["message"]
        assert told["next"]
    assert not list((tmp_path / "store").rglob("*.*"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"platform__arch": "aarch64" if host_platform().arch == "x86_64" else "x86_64"}, "aarch64"),
        ({"runtime__python": "3.99"}, "3.99"),
    ],
)
def test_check_says_what_does_not_fit_here(source: Callable[..., Path], change: dict[str, Any], says: str) -> None:
    """WRK-048, RUN-016: a package for another machine is fine; what a worker on this one would say is a note."""
    result = run("check", source(**change))
    assert result.exit_code == 0
    assert (says in result.stderr) is True
    assert bool(result.stderr) is bool(says)
