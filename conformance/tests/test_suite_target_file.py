"""The description of a target: template, schema, and what goes before what."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from protocol3_conformance import target_file
from protocol3_conformance.__main__ import main
from protocol3_conformance.commands import WorkerCommand
from protocol3_conformance.target import NOWHERE, PROFILES, TOGETHER, Patience, Target
from protocol3_conformance.wire.peer import Endpoint

pytest_plugins = ["pytester"]
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]
SAMPLE = '''
from protocol3_conformance.scenario import scenario

@scenario("sample/describes", cites=["TASK-100"])
async def test_describes(lab):
    """Tells what it is given."""
    target = lab.target
    told = (sorted(target.profiles), target.scope, "@".join(target.program), target.patience.factor, target.concurrency)
    raise AssertionError(f"{told} {lab.queue[:4]} {target.commands}")
'''


def test_the_template_shows_every_member_and_all_are_valid() -> None:
    """As it is written, and with every comment that is a setting taken as one."""
    Draft202012Validator.check_schema(target_file.schema())
    validator = Draft202012Validator(target_file.schema())
    validator.validate(tomllib.loads(target_file.template()))
    uncommented = re.sub(r"^# (?=\[|[a-z_]+ = )", "", target_file.template(), flags=re.MULTILINE)
    whole = tomllib.loads(uncommented)
    validator.validate(whole)
    assert set(whole) == set(target_file.schema()["properties"])
    assert set(whole["commands"]) == set(target_file.schema()["properties"]["commands"]["properties"])
    assert tuple(whole["profiles"]) == PROFILES


def test_a_file_of_any_editor(tmp_path: Path) -> None:
    """With a byte order mark and CRLF, as some write text."""
    path = tmp_path / "target.toml"
    path.write_bytes(b'\xef\xbb\xbfurl = "http://h"\r\npatience = 3\r\n')
    assert target_file.read(path) == {"url": "http://h", "patience": 3}


def test_init_writes_it_once(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    assert CliRunner().invoke(main, ["init", str(path)]).exit_code == 0
    assert path.read_text(encoding="utf-8") == target_file.template()
    refused = CliRunner().invoke(main, ["init", str(path)])
    assert (refused.exit_code, "exists; name another file" in refused.output) == (2, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('url = "x', "*target.toml: *"),
        ('adress = "http://h"', "*target.toml: the file: *adress*"),
        ('profiles = ["forks"]', "*target.toml: profiles: *core*"),
        ("patience = 0", "*target.toml: patience: *"),
        ('url = "http://h"\nstore = "nowhere"', "*--store nowhere: there is no such folder*"),
        ('scope = { tenant = "a" }', "*target.toml: scope*"),
        ('url = "https://h"', "*'https://h' is not of the form http://HOST:PORT*"),
        ('profiles = ["core", "forkz"]\nurl = "http://h"', "*forkz is not one of core*"),
        ('name = "nameless"', "*name the service to judge with --target*"),
    ],
)
def test_a_wrong_file_is_one_sentence(pytester: pytest.Pytester, content: str, sentence: str) -> None:
    pytester.makepyfile(test_sample=SAMPLE)
    (pytester.path / "target.toml").write_text(content)
    result = pytester.runpytest_subprocess(*PLUGIN, "--target-file", "target.toml", timeout=60)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.fixture
def told(pytester: pytest.Pytester, obliging_target: str) -> Callable[..., pytest.RunResult]:
    pytester.makepyfile(test_sample=SAMPLE)
    content = f"""
        url = "{obliging_target}"
        profiles = ["core", "forks"]
        scope = {{ tenant = "acme", namespace = "demo" }}
        program = "p@1"
        patience = 0.5
        concurrency = 3
        queue = "mine"
        commands.kill = "kill it"
        """
    (pytester.path / "target.toml").write_text(content.replace("\n        ", "\n"))
    return lambda *more: pytester.runpytest_subprocess(*PLUGIN, "--target-file", "target.toml", *more, timeout=60)


def test_the_file_describes_the_target(told: Callable[..., pytest.RunResult]) -> None:
    result = told()
    assert "(['core', 'forks'], ('acme', 'demo'), 'p@1', 0.5, 3) mine {'kill': 'kill it'}" in result.stdout.str()
    result.stdout.fnmatch_lines(["*pytest conformance --target-file target.toml --seed * --check sample/describes*"])


def test_an_option_goes_before_the_file(told: Callable[..., pytest.RunResult]) -> None:
    options = ("--profile", "core", "--scope", "a/b", "--program", "q@2", "--patience", "2", "--concurrency", "1")
    assert "(['core'], ('a', 'b'), 'q@2', 2.0, 1) mine" in told(*options).stdout.str()


def test_service_and_worker_are_judged_together_where_both_and_their_store_are_named(tmp_path: Path) -> None:
    whole = Target(
        endpoint=Endpoint.parse("http://h:1"),
        profiles=frozenset({"core"}),
        scope=None,
        program=("p", "1"),
        patience=Patience(),
        seed=1,
        worker=WorkerCommand.parse("true {server} {tenant} {namespace} {queue} {store} {cache}"),
        store=tmp_path,
    )
    assert whole.claims(TOGETHER)
    lacking = (replace(whole, endpoint=NOWHERE), replace(whole, worker=None), replace(whole, store=None))
    assert not any(target.claims(TOGETHER) for target in lacking)
