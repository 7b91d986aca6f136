"""The one JSON result on standard output: compact for programs, indented on a terminal."""

import json
import re
import sys

import click

from protocol3.contract.strict_json import JsonValue, encode

# Controls that JSON text may hold raw and a terminal might obey; the escape is the same JSON.
_CONTROLS = re.compile("[\x7f-\x9f]")


def emit(result: JsonValue) -> None:
    """Print the result and flush it, so that a reader of the pipe has it while the command goes on."""
    if sys.stdout.isatty():
        text = json.dumps(result, ensure_ascii=False, indent=2)
        click.echo(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
    else:
        click.echo(encode(result))
