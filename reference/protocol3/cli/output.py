"""The one JSON result on standard output: compact for programs, indented on a terminal."""

import json
import os
import re
import sys
from typing import Final

import click

from protocol3.cli.failure import CliFailure
from protocol3.contract.strict_json import JsonValue, encode

# Controls that JSON text may hold raw and a terminal might obey; the escape is the same JSON.
_CONTROLS = re.compile("[\x7f-\x9f]")

_META: Final = "protocol3.json"
_HELP: Final = "One compact line of JSON, on a terminal as well."


def emit(result: JsonValue) -> None:
    """Print the result and flush it, so that a reader of the pipe has it while the command goes on.

    Raises CliFailure where nothing can be written: a result that nobody gets is not a success.
    """
    if sys.stdout is None:  # closed by whoever started us
        raise _unwritten("it is closed")
    try:
        if sys.stdout.isatty() and not _compact():
            text = json.dumps(result, ensure_ascii=False, indent=2)
            click.echo(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
        else:
            click.echo(encode(result))
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered is lost; do not fail again at exit
        raise _unwritten(failure.strerror) from failure


def with_json_flag(command: click.Command) -> click.Command:
    """Every command takes `--json`, for whoever expects it: its output is JSON anyway, and compact by this flag.

    Not one that passes unknown words on, nor one that has the flag for itself.
    """
    if isinstance(command, click.Group):
        for child in command.commands.values():
            with_json_flag(child)
    elif not command.context_settings.get("ignore_unknown_options") and not any(
        "--json" in parameter.opts for parameter in command.params
    ):
        command.params.append(click.Option(["--json"], is_flag=True, expose_value=False, help=_HELP, callback=_note))
    return command


def _note(context: click.Context, _: click.Parameter, asked: bool) -> None:
    context.meta[_META] = asked


def _compact() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_META))


def _unwritten(why: str | None) -> CliFailure:
    message = f"the result could not be written to standard output: {why}"
    return CliFailure(message, code="output", advice="what the command did is done; ask for its state")
