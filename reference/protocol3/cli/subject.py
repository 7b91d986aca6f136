"""The one task or workflow that a command is about."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from protocol3.cli import options
from protocol3.cli.client import Client
from protocol3.cli.options import Command
from protocol3.contract.strict_json import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """`member` is what the protocol calls its id: `task_id` or `workflow_id`."""

    client: Client
    tenant: str
    namespace: str
    member: str
    id: str

    def query(self, **more: str | int | None) -> dict[str, str]:
        """The query of a read about it."""
        return options.scope_query(self.tenant, self.namespace, **{self.member: self.id, **more})

    def command(self, **more: JsonValue) -> dict[str, JsonValue]:
        """The body of a command about it."""
        return {"scope": options.scope_json(self.tenant, self.namespace), self.member: self.id, **more}


def subject(noun: str) -> Callable[[Command], Command]:
    """`--server`, `--tenant`, `--namespace` and `--NOUN`, passed on as one argument `subject`."""

    def add(command: Command) -> Command:
        @wraps(command)
        def about(*, client: Client, tenant: str, namespace: str, **members: Any) -> Any:
            found = Subject(
                client=client, tenant=tenant, namespace=namespace, member=f"{noun}_id", id=members.pop(noun)
            )
            return command(subject=found, **members)

        with_id = click.option(f"--{noun}", required=True, help=f"Id of the {noun}.")(about)
        return options.server(options.scope(required=True)(with_id))  # type: ignore[return-value]  # click wrapped it

    return add
