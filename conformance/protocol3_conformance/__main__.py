"""What of the suite needs no pytest. The checks: `pytest --pyargs protocol3_conformance`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from protocol3_conformance import target_file, watching


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("path", metavar="FILE", default="target.toml", type=click.Path(path_type=Path, dir_okay=False))
def init(path: Path) -> None:
    """Write a commented description of a target into FILE (target.toml)."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(target_file.template())
    except FileExistsError:
        raise click.UsageError(f"{path} exists; name another file") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}; correct its url, then: protocol3 conformance --target-file {path}", err=True)


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def watch(folder: Path, command: tuple[str, ...]) -> None:
    """Run COMMAND, such as `pytest conformance --target URL`, now and after every change below FOLDER, until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        watching.watch(folder, command)


if __name__ == "__main__":
    main(prog_name="protocol3 conformance")
