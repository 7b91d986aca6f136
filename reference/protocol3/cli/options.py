"""Options and values that several commands share."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click import Context, Parameter
from click.core import ParameterSource

from protocol3.cli.client import Client
from protocol3.contract import limits
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode

Command = TypeVar("Command", bound=Callable[..., Any])


def as_client(context: Context, parameter: Parameter, value: str) -> Client:
    """A coordinator's address, as a Client."""
    try:
        return Client(value)
    except ValueError as failure:
        raise click.BadParameter(f"{value!r} {failure}") from failure


def json_file(context: Context, parameter: Parameter, value: str | None) -> JsonValue:
    """A document read from a file, from standard input for `-`, under the contract's strict rules."""
    if value is None:
        return None
    try:
        with click.open_file(value, "rb") as stream:
            content = stream.read(limits.BODY_BYTES + 1)  # no more than a request may hold, so that no pipe is endless
    except OSError as failure:
        raise click.BadParameter(f"{value}: {failure.strerror}") from failure
    if len(content) > limits.BODY_BYTES:
        raise click.BadParameter(f"{value}: holds more than {limits.BODY_BYTES} bytes")
    try:
        return decode(content)
    except InvalidJson as failure:
        raise click.BadParameter(f"{value}: {failure}") from failure


def seconds(context: Context, parameter: Parameter, value: float) -> float:
    """A time to wait: finite and not negative."""
    if not (math.isfinite(value) and value >= 0):
        raise click.BadParameter("needs a number of seconds, 0 or more")
    return value


def not_empty(context: Context, parameter: Parameter, value: str | None) -> str | None:
    """A text that stands for something; an empty one would be taken for none."""
    if value == "":
        raise click.BadParameter("must not be empty")
    return value


def json_text(context: Context, parameter: Parameter, value: str | None) -> JsonValue:
    """JSON given in place, or read from a file with `@FILE`, from standard input with `@-`."""
    if value is None or value.startswith("@"):
        return json_file(context, parameter, value and value[1:])
    try:
        return decode(value.encode("utf-8", "surrogateescape"))
    except InvalidJson as failure:
        raise click.BadParameter(f"{failure}; quote it for the shell, or use @FILE") from failure


def wait(command: Command) -> Command:
    """`--wait`."""
    return click.option(
        "--wait", type=float, callback=seconds, default=0.0, help="Seconds to wait for the end.  [default: 0]"
    )(command)


def given() -> set[str]:
    """The parameters of the running command that stand on its command line (a value may be a JSON null)."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def server(command: Command) -> Command:
    """`--server`, passed on as `client`."""
    return click.option(
        "--server",
        "client",
        metavar="URL",
        callback=as_client,
        envvar="PROTOCOL3_SERVER",
        default="http://127.0.0.1:8080",
        show_default=True,
        help="Address of the coordinator.",
    )(command)


def scope(*, required: bool) -> Callable[[Command], Command]:
    """`--tenant` and `--namespace`."""

    def add(command: Command) -> Command:
        tenant = click.option("--tenant", envvar="PROTOCOL3_TENANT", required=required, help="Tenant of the scope.")
        namespace = click.option(
            "--namespace", envvar="PROTOCOL3_NAMESPACE", required=required, help="Namespace of the scope."
        )
        return tenant(namespace(command))

    return add


def scope_query(tenant: str, namespace: str, **more: str | int | None) -> dict[str, str]:
    """The query of a read: the scope, then the members that are set, in order (CLI-003)."""
    members: dict[str, str | int | None] = {"tenant_id": tenant, "namespace": namespace, **more}
    return {name: str(value) for name, value in members.items() if value is not None}


def scope_json(tenant: str, namespace: str) -> JsonValue:
    return {"tenant_id": tenant, "namespace": namespace}
