"""`protocol3 schemas`: the contract as data, for tools in any language."""

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import click

from protocol3.cli.failure import CliFailure
from protocol3.cli.output import emit
from protocol3_spec import bundle, schema_bundle

BUNDLES: Final = {"openapi.bundle.json": bundle, "schemas.bundle.json": schema_bundle}


@click.group(name="schemas")
def group() -> None:
    """The contract as data: JSON Schemas, OpenAPI, limits, errors, states, routes, requirements."""


@group.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--bundle", "bundled", is_flag=True, help=f"Also write {' and '.join(BUNDLES)}, each whole in one file.")
def export(directory: Path, bundled: bool) -> None:
    """Write the data files into DIR, which is made if it is missing. Files of the same names are replaced.

    Prints the directory and the names of the files in it.
    """
    texts = dict(_data(files("protocol3_spec"), ""))
    if bundled:
        texts |= {name: json.dumps(made(), indent=2) + "\n" for name, made in BUNDLES.items()}
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise CliFailure(f"cannot write to {directory}: {failure.strerror}", code="io") from failure
    emit({"directory": str(directory.absolute()), "files": [*sorted(texts)]})


def _data(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    """Every JSON file below a folder with its path there."""
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _data(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".json"):
            found.append((f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")))
    return found
