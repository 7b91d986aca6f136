"""`protocol3 spec`: the requirements of the specification, by ID and by words."""

import dataclasses
import difflib
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

import click

from protocol3.cli.failure import Rejected
from protocol3.cli.output import emit
from protocol3.contract.strict_json import JsonValue
from protocol3_spec.requirements import Requirement, requirements

WIDTH: Final = 100
as_json = click.option(
    "--json", "as_json", is_flag=True, help="The same as JSON (always so when the output is no terminal)."
)


@click.group(name="spec")
def group() -> None:
    """The specification: its requirements."""


@group.command()
@click.argument("ids", metavar="REQ-ID...", nargs=-1, required=True)
@as_json
def show(ids: Sequence[str], as_json: bool) -> None:
    """Requirements by their IDs: text, level, role, profile, chapter, and who decides instead."""
    _print([_found(one.upper()) for one in ids], as_json)


@group.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--level", help="Only of this level: MUST, SHOULD, ...")
@click.option("--role", help="Only what binds this role: coordinator, worker, ...")
@click.option("--profile", help="Only of this profile: core, workflows, ...")
@as_json
def search(words: Sequence[str], level: str | None, role: str | None, profile: str | None, as_json: bool) -> None:
    """Requirements that hold all of WORDS, in any case, in their ID, their text or the heading above them."""
    _print(
        [
            one
            for one in requirements().values()
            if _holds(one, words)
            and (level is None or one.level == level.upper())
            and (role is None or one.role == role)
            and (profile is None or profile in one.profiles)
        ],
        as_json,
    )


def _found(identifier: str) -> Requirement:
    if identifier in requirements():
        return requirements()[identifier]
    near = difflib.get_close_matches(identifier, requirements(), n=3)
    advice = f"nearest: {', '.join(near)}" if near else "protocol3 spec search WORDS"
    raise Rejected(f"there is no requirement {identifier}", code="not_found", advice=advice)


def _holds(one: Requirement, words: Iterable[str]) -> bool:
    text = f"{one.id} {one.section} {one.text}".casefold()
    return all(word.casefold() in text for word in words)


def _print(found: Sequence[Requirement], as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        emit({"requirements": [_plain(one) for one in found]})
    elif found:
        click.echo("\n\n".join(map(_readable, found)))
    else:
        click.echo("nothing found", err=True)


def _plain(one: Requirement) -> JsonValue:
    """The members of a requirement as JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(one).items()}


def _readable(one: Requirement) -> str:
    head = " · ".join([one.level, one.role, " or ".join(one.profiles), one.observed])
    lines = [f"{click.style(one.id, bold=True)}  {head}", *textwrap.wrap(one.text, WIDTH)]
    if one.owned_by:
        lines.append(f"decided by: {', '.join(one.owned_by)}")
    return "\n".join([*lines, f"spec/{one.place}"])
