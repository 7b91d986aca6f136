"""`protocol3 conformance` and `protocol3 fixtures`: the suite and its data, from any folder."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from protocol3.cli.conformance import SUITE, command_line
from protocol3.cli.root import root
from protocol3.contract.models.common import ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.stores import open_store

PROGRAMS = [
    "crasher@1.0.0",
    "echo@1.0.0",
    "failing@1.0.0",
    "hello@1.0.0",
    "locals-and-events@1.0.0",
    "mixed-workflow@1.0.1",
    "sleeper@1.0.0",
]
PROTOCOL3 = [sys.executable, "-m", "protocol3.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*PROTOCOL3, "conformance", *words]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)


def test_the_suite_runs_in_any_folder_whatever_its_configuration_says(tmp_path: Path) -> None:
    """A foreign pytest configuration neither breaks the run nor is obeyed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    listed = run(tmp_path, "--list", "-q")
    assert listed.returncode == 0, listed.stderr
    assert "submission/first-acceptance" in listed.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pytest.ini"]


def test_its_exit_code_is_the_suites(tmp_path: Path) -> None:
    refused = run(tmp_path, "--target", "http://127.0.0.1:1")
    assert refused.returncode == 4
    assert "Start the server under test there" in refused.stderr


def test_init_writes_a_description_that_the_suite_reads(tmp_path: Path) -> None:
    assert run(tmp_path, "init").returncode == 0
    assert 'url = "http://127.0.0.1:8080"' in (tmp_path / "target.toml").read_text()
    assert run(tmp_path, "init").returncode == 2
    assert run(tmp_path, "--target-file", "target.toml", "--list", "-q").returncode == 0


def test_watch_runs_what_would_run_without_it(tmp_path: Path) -> None:
    run_once = command_line(("--target", "http://h", "--smoke"))
    assert command_line(("watch", "src", "--target", "http://h", "--smoke"))[1:5] == ["-m", SUITE, "watch", "src"]
    assert command_line(("watch", "src", "--target", "http://h", "--smoke"))[5:] == run_once
    missing = run(tmp_path, "watch", "nowhere", "--smoke")
    assert (missing.returncode, "'nowhere' does not exist" in missing.stderr) == (2, True)
    assert run(tmp_path, "watch").returncode == 2


def test_words_are_handed_on() -> None:
    words = ("--target", "http://h", "-x", "-n", "2", "--check", "a/*")
    assert command_line(words)[-len(words) :] == [*words]
    assert command_line(("--options",))[-1] == "--help"


def test_help_says_how() -> None:
    shown = CliRunner().invoke(root, ["conformance", "--help"]).output
    assert "protocol3 conformance --target http://127.0.0.1:8080" in shown


def test_export_writes_a_store_and_the_vectors(tmp_path: Path) -> None:
    """Twice is once."""
    for _ in range(2):
        done = CliRunner().invoke(root, ["fixtures", "export", str(tmp_path / "out")])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout.splitlines()[-1])["programs"] == PROGRAMS
    assert json.loads((tmp_path / "out/vectors/limits.json").read_text())

    async def resolved() -> str:
        store = open_store(str(tmp_path / "out/store"))
        return (await store.resolve(ProgramRef(id="mixed-workflow", version="1.0.1"))).program.id

    assert asyncio.run(resolved()) == "mixed-workflow"


def test_export_says_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    refused = CliRunner().invoke(root, ["fixtures", "export", str(tmp_path)])
    assert refused.exit_code == 1
    assert json.loads(refused.stderr.splitlines()[-1])["next"] == "name another directory"


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "localhost:1", "127.0.0.1:x", "127.0.0.1:70000", "[::1]:1"])
def test_serve_refuses_what_no_store_may_be(listen: str) -> None:
    refused = CliRunner().invoke(root, ["fixtures", "serve", "--listen", listen])
    assert refused.exit_code == 2
    assert "literal IPv4 loopback" in json.loads(refused.stderr)["message"]


def test_serve_is_a_store_over_http() -> None:
    """Descriptors and blobs, and nothing beside them; an interrupt ends it."""
    pytest.importorskip("aiohttp")
    command = [*PROTOCOL3, "fixtures", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as serving:
        assert serving.stdout is not None
        told = json.loads(serving.stdout.readline())
        assert told["programs"] == PROGRAMS

        async def use() -> bytes:
            store = open_store(told["url"])
            try:
                descriptor = await store.resolve(ProgramRef(id="echo", version="1.0.0"))
                with pytest.raises(ProgramError) as missing:
                    await store.resolve(ProgramRef(id="echo", version="9.9.9"))
                assert missing.value.kind == "not_found"
                return await store.fetch(descriptor)
            finally:
                await store.aclose()

        try:
            assert asyncio.run(use()).startswith(b"PK")
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(30) == 0
