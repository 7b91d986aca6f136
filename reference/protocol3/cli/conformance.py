"""`protocol3 conformance`: the conformance suite in a process of its own. Nothing of it is imported here."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

SUITE: Final = "protocol3_conformance"

HELP: Final = """Judge any coordinator of runtime protocol 3 over its wire.

\b
  protocol3 conformance --target http://127.0.0.1:8080
  protocol3 conformance --target http://127.0.0.1:8080 --smoke
  protocol3 conformance init                             write target.toml, a description of the target
  protocol3 conformance --target-file target.toml --report-html report.html
  protocol3 conformance watch src --target http://127.0.0.1:8080 --smoke     again after every change below src
  protocol3 conformance --list
  protocol3 conformance --explain TASK-104
  protocol3 conformance --options                        every option, those of pytest included

All words are handed to `pytest --pyargs protocol3_conformance`, without other plugins and without the configuration
of the folder it is run in. Exit codes are the suite's: 0 all held, 1 something failed, 2 it was ended, 4 it could
not begin, 10 something was not determined, 11 the suite itself failed, 12 a known failure did not fail.
"""


@click.command(name="conformance", help=HELP, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def group(words: tuple[str, ...]) -> None:
    sys.stdout.flush()
    command = command_line(words)
    # No other plugin of the environment has a word in a verdict; -n stays possible.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.execve(command[0], command, environment)  # noqa: S606 - the suite takes over terminal, signals and exit code


def command_line(words: tuple[str, ...]) -> list[str]:
    """The command of the suite's process."""
    if words[:1] == ("init",):
        return [sys.executable, "-m", SUITE, *words]
    if words[:1] == ("watch",):
        return [sys.executable, "-m", SUITE, *words[:2], *(command_line(words[2:]) if words[2:] else ())]
    asked = ["--help" if word == "--options" else word for word in words]
    alone = ["-c", os.devnull, "--rootdir", str(Path.cwd()), "-p", "no:cacheprovider"]
    plugins = ["-p", f"{SUITE}.plugin", *(["-p", "xdist"] if find_spec("xdist") else [])]
    return [sys.executable, "-m", "pytest", *alone, *plugins, "--pyargs", SUITE, *asked]


def suite_folder() -> Path:
    """Where the suite's package lies; it is part of every installation."""
    found = find_spec(SUITE)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {SUITE!r}", name=SUITE)
    return Path(found.submodule_search_locations[0])
