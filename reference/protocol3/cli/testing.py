"""`protocol3 testing`: the clock and the faults of one scope of a server with test controls."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from protocol3.cli import options
from protocol3.cli.client import Client
from protocol3.cli.failure import CliFailure
from protocol3.cli.output import emit
from protocol3.contract.strict_json import JsonValue

CLOCK, FAULTS = "/testing/v1/clock", "/testing/v1/faults"

LOOK_FIRST = "look before you repeat it: protocol3 testing clock, or faults"

one_of = click.option("--id", help="Only this rule, or this one thing that is held.")


def an_act(context: click.Context, parameter: click.Parameter, value: str) -> JsonValue:
    """A word for an act that needs no more than its kind, or the whole of it as JSON."""
    return options.json_text(context, parameter, value) if value.startswith(("{", "@")) else {"kind": value}


@click.group()
def group() -> None:
    """Virtual time and faults of one scope (spec/35-testing-profiles.md).

    The server must offer them: `protocol3 orchestrator serve --test-controls`.
    """


@group.command()
@options.server
@options.scope(required=True)
def clock(client: Client, tenant: str, namespace: str) -> None:
    """The scope's time, what is due next in it, and how many attempts are live."""
    with _controls():
        emit(client.get(CLOCK, options.scope_query(tenant, namespace)))


@group.command()
@options.server
@options.scope(required=True)
@click.option("--by", "milliseconds", type=click.IntRange(min=0), metavar="MS", help="By so many milliseconds.")
@click.option("--next", "to_next", is_flag=True, help="To what is due next.")
@click.option(
    "--leases",
    type=click.Choice(["hold", "expire"]),
    default="hold",
    show_default=True,
    help="Whether live leases and sessions move along, as real workers need it, or run out.",
)
def advance(client: Client, tenant: str, namespace: str, milliseconds: int | None, to_next: bool, leases: str) -> None:
    """Advance the scope's clock; prints it as it is afterwards."""
    if (milliseconds is None) != to_next:
        raise click.UsageError("give --by or --next, and not both")
    target: dict[str, JsonValue] = {"to": "next_due"} if to_next else {"advance_ms": milliseconds}
    _send(client, CLOCK, tenant, namespace, {**target, "leases": leases})


@group.command()
@options.server
@options.scope(required=True)
def faults(client: Client, tenant: str, namespace: str) -> None:
    """The fault rules of the scope with their hits, and what they hold now."""
    with _controls():
        emit(client.get(FAULTS, options.scope_query(tenant, namespace)))


@group.command()
@options.server
@options.scope(required=True)
@click.option("--step", help="A background step, such as decision.apply.")
@click.option("--route", metavar='"METHOD PATH"', help='A route, such as "POST /v1/settlements".')
@click.option("--where", type=click.Choice(["received", "locked", "written", "committed"]), required=True)
@click.option(
    "--act", required=True, callback=an_act, help='hold, fail, drop or crash; or JSON: {"kind": "delay", "ms": 100}'
)
@click.option("--skip", type=click.IntRange(min=0), default=0, show_default=True, help="So many pass first.")
@click.option("--times", type=click.IntRange(min=0), default=1, show_default=True, help="0: all that follow.")
def fault(
    client: Client,
    tenant: str,
    namespace: str,
    step: str | None,
    route: str | None,
    where: str,
    act: JsonValue,
    skip: int,
    times: int,
) -> None:
    """Add a fault rule; prints it with its id."""
    if (step is None) == (route is None):
        raise click.UsageError("give --step or --route, and not both")
    method, _, path = (route or "").partition(" ")
    match: JsonValue = {"method": method, "path": path} if step is None else {"step": step}
    rule: dict[str, JsonValue] = {"match": match, "where": where, "act": act, "skip": skip, "times": times or None}
    _send(client, FAULTS, tenant, namespace, rule)


@group.command()
@options.server
@options.scope(required=True)
@one_of
def release(client: Client, tenant: str, namespace: str, id: str | None) -> None:
    """Let go of what is held; the rules stay."""
    _send(client, f"{FAULTS}/release", tenant, namespace, {} if id is None else {"id": id})


@group.command()
@options.server
@options.scope(required=True)
@one_of
def clear(client: Client, tenant: str, namespace: str, id: str | None) -> None:
    """Forget fault rules and let go of what they hold."""
    _send(client, f"{FAULTS}/clear", tenant, namespace, {} if id is None else {"id": id})


def _send(client: Client, path: str, tenant: str, namespace: str, members: dict[str, JsonValue]) -> None:
    with _controls():
        emit(client.post(path, {"scope": options.scope_json(tenant, namespace), **members}, repeat=LOOK_FIRST))


@contextmanager
def _controls() -> Iterator[None]:
    """An unknown path is, here, a server without test controls (TST-001)."""
    try:
        yield
    except CliFailure as failure:
        if "route_not_found" not in failure.message:
            raise
        advice = "serve it with --test-controls; never in production"
        raise CliFailure("this server has no test controls", code="no_test_controls", advice=advice) from failure
