"""`protocol3`: the groups of commands. Each group's module is imported only when the group is used."""

import gc
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import click

from protocol3 import __version__
from protocol3.cli.failure import Rejected, missing_extra
from protocol3.cli.output import with_json_flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command group: `module` exports it as `group`. It is absent while there is no such module."""

    module: str
    about: str
    section: str


COMMANDS: Final = {
    "orchestrator": Entry(
        module="protocol3.cli.orchestrator", section="Run", about="The coordinator: serve it, migrate its database."
    ),
    "worker": Entry(module="protocol3.cli.worker", section="Run", about="A worker: connect it to a coordinator."),
    "dev": Entry(module="protocol3.cli.dev", section="Run", about="Everything at once for one folder of programs."),
    "program": Entry(
        module="protocol3.cli.programs", section="Use", about="Programs: an example, checks, publication to a store."
    ),
    "task": Entry(module="protocol3.cli.task", section="Use", about="Tasks: submit, observe, cancel."),
    "workflow": Entry(
        module="protocol3.cli.workflow", section="Use", about="Workflows: submit, observe, send events, cancel."
    ),
    "testing": Entry(
        module="protocol3.cli.testing", section="Judge", about="Virtual time and faults of a server for tests."
    ),
    "conformance": Entry(
        module="protocol3.cli.conformance", section="Judge", about="Run the conformance suite against a target."
    ),
    "fixtures": Entry(
        module="protocol3.cli.fixtures", section="Judge", about="The fixture programs and vectors: export, serve."
    ),
    "spec": Entry(
        module="protocol3.cli.spec", section="Judge", about="The specification: requirements by ID or words."
    ),
    "schemas": Entry(module="protocol3.cli.schemas", section="Judge", about="The contract's schemas: export."),
}

#: Distribution packages of the extra `server`, by the name that an import of them asks for.
EXTRA: Final = frozenset({"aiohappyeyeballs", "aiohttp", "asyncpg", "httptools", "uvloop"})

HELP: Final = """Durable tasks and workflows over HTTP: Ledgence runtime protocol 3.

\b
A first run, in three terminals:
  protocol3 program example --directory ./hello
  protocol3 program publish --source ./hello/program --store ./store
  protocol3 orchestrator serve --ephemeral --store ./store
  protocol3 worker connect --tenant acme --namespace demo --queue main --store ./store
  protocol3 task submit --tenant acme --namespace demo --queue main \\
      --program hello@1.0.0 --data '{"name": "Ada"}'
  protocol3 task result --tenant acme --namespace demo --task TASK_ID --wait 30

PROTOCOL3_SERVER, PROTOCOL3_TENANT and PROTOCOL3_NAMESPACE stand in for the options of these names.

\b
Every command prints one JSON result on standard output and diagnostics on standard error.
Exit codes: 0 accepted, 1 a service or transport failed, 2 usage or input refused.
"""


def _imported(name: str) -> ModuleType:
    """A module. What its imports define is no garbage, so nobody looks for any meanwhile, nor among them afterwards.

    That is some 7 % of the CPU of a start, and nearly all of what a full collection takes in a coordinator.
    """
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


class Root(click.Group):
    """The table above as a click group."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, entry in COMMANDS.items() if importlib.util.find_spec(entry.module)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        try:
            return with_json_flag(_imported(COMMANDS[name].module).group)
        except ModuleNotFoundError as failure:
            if failure.name in EXTRA:
                raise missing_extra(name, failure.name) from failure
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            sections.setdefault(COMMANDS[name].section, []).append((name, COMMANDS[name].about))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(cls=Root, help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="protocol3")
def root() -> None:
    pass


def main() -> None:
    """The console script. Words that are no UTF-8 text are refused before any command sees them."""
    for word in sys.argv[1:]:
        if not _is_text(word):
            refused = Rejected(f"{word!a} is not UTF-8 text", code="invalid_input", advice="check the locale (LANG)")
            refused.show()
            sys.exit(refused.exit_code)
    root(prog_name="protocol3")


def _is_text(word: str) -> bool:
    """False for what the shell passed in another encoding: it arrives as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
