"""Help, registration of the groups, and how failures are shown."""

import io
import json
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from protocol3.cli import root as frame
from protocol3.cli.failure import CliFailure, Rejected, printable
from protocol3.cli.output import emit, with_json_flag
from protocol3.cli.root import root


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_help_teaches_the_first_run():
    shown = CliRunner().invoke(root, ["--help"]).output
    assert "A first run" in shown
    assert "Exit codes: 0 accepted" in shown
    for section in ("Run:", "Use:"):
        assert section in shown


def test_help_imports_no_group_and_no_server():
    """A base installation without the extra can show it, at once."""
    check = (
        "import sys; from protocol3.cli.root import root; from click.testing import CliRunner; "
        "assert CliRunner().invoke(root, ['--help']).exit_code == 0; "
        "loaded = {'asyncpg', 'aiohttp', 'protocol3.cli.orchestrator', 'protocol3.cli.task'} & set(sys.modules); "
        "assert not loaded, loaded"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_a_group_whose_module_is_missing_is_absent(monkeypatch):
    entry = frame.Entry(module="protocol3.cli.nowhere", section="Run", about="Not there.")
    monkeypatch.setitem(frame.COMMANDS, "nowhere", entry)
    assert "nowhere" not in CliRunner().invoke(root, ["--help"]).output
    refused = CliRunner().invoke(root, ["nowhere"])
    assert refused.exit_code == 2
    assert "No such command 'nowhere'" in refused.stderr


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, "protocol3.cli.orchestrator", raising=False)
    refused = CliRunner().invoke(root, ["orchestrator", "serve"])
    assert refused.exit_code == 2
    assert json.loads(refused.stderr) == {
        "code": "missing_extra",
        "message": "`protocol3 orchestrator` needs the package asyncpg, which is not installed",
        "next": "pip install 'protocol3[server]'",
    }


def test_an_import_that_fails_for_another_reason_is_a_bug(monkeypatch):
    """Only the extra's packages are an expected absence."""
    monkeypatch.setattr(frame, "EXTRA", frozenset())
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, "protocol3.cli.orchestrator", raising=False)
    assert isinstance(CliRunner().invoke(root, ["orchestrator"]).exception, ModuleNotFoundError)


def test_failures_are_json_for_programs_and_lines_for_people():
    failure = Rejected("no\x1b[2J such \x9b thing", code="not_found", status=404, advice="look again")
    piped = io.StringIO()
    failure.show(piped)
    assert json.loads(piped.getvalue()) == {
        "code": "not_found",
        "status": 404,
        "message": "no\x1b[2J such \x9b thing",
        "next": "look again",
    }
    assert "\x1b" not in piped.getvalue()
    terminal = Terminal()
    failure.show(terminal)
    assert "\x1b[2J" not in terminal.getvalue()
    assert "\x9b" not in terminal.getvalue()
    assert "not_found" in terminal.getvalue()
    assert "look again" in terminal.getvalue()


def test_exit_codes():
    assert CliFailure("x", code="unavailable").exit_code == 1
    assert Rejected("x", code="conflict").exit_code == 2


@pytest.mark.parametrize("text", ["plain", "grüße 你好", "emoji 🙂"])
def test_ordinary_text_is_shown_as_it_is(text):
    assert printable(text) == text


def test_it_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "protocol3.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("protocol3, version ")


COLLECTOR = """
import gc, sys, click
from protocol3.cli import root

class Look:  # asked for every module that is imported
    enabled = {}
    def find_spec(self, name, *_):
        self.enabled.setdefault(name, []).append(gc.isenabled())

sys.meta_path.insert(0, Look())
context = click.Context(root.root)
for name in ("orchestrator", "orchestrator"):
    root.root.get_command(context, name)
    print(Look.enabled["asyncpg"], gc.isenabled(), gc.get_freeze_count())
root.root.list_commands = lambda _: ["spec"]
root.COMMANDS["spec"] = root.Entry(module="protocol3.cli.missing", section="", about="")
try:
    root.root.get_command(context, "spec")
except ModuleNotFoundError:
    print(gc.isenabled())
"""


def test_the_collector_rests_while_a_command_is_imported_and_spares_what_that_made():
    done = subprocess.run([sys.executable, "-c", COLLECTOR], capture_output=True, text=True, check=True)
    first, again, failed = done.stdout.splitlines()
    assert re.fullmatch(r"\[False\] True [1-9][0-9]{3,}", first)
    assert again == first  # garbage of what runs later is not kept
    assert failed == "True"


def every_command(group, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name)


def commands():
    """All but the suite's, which passes what it does not know on to pytest."""
    context = click.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (name,))


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_takes_json(command):
    """Output is JSON anyway; whoever asks for it is not refused, and finds it in the help."""
    shown = CliRunner().invoke(root, [*command, "--json", "--help"])
    assert (shown.exit_code, "--json" in shown.stdout) == (0, True), shown.output


@pytest.mark.parametrize(("words", "lines"), [([], 3), (["--json"], 1)])
def test_json_is_one_line_on_a_terminal_as_well(monkeypatch, words, lines):
    @click.command()
    def answer():
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        emit({"answer": 42})

    shown = CliRunner().invoke(with_json_flag(answer), words)
    assert (json.loads(shown.stdout), shown.stdout.count("\n")) == ({"answer": 42}, lines)
