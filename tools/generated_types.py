"""Types made from the OpenAPI document by other people's generators: that they compile and take every example.

    python tools/generated_types.py

Python by datamodel-code-generator, in the environment `types`: the module imports without a warning, and the class of
every schema takes the schema's examples. TypeScript by openapi-typescript: `tsc --strict` accepts the types, with every
example assigned to its type. Without node and npm the second part is skipped. The results stay in `build/types`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openapi_spec_validator import validate

from npm_packages import ensure
from protocol3_spec import bundle, schemas

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build/types"
DOCUMENT = OUTPUT / "openapi.json"
EXAMPLES = OUTPUT / "examples.json"

#: Python: the generator gives this name to the member `decision` of another message, and the message a number.
TAKEN = "Decision"

#: TypeScript: an index signature, here for further CloudEvents attributes, would have to admit all other members too.
EXTENSIBLE = '"specversion"'

#: Runs in the environment of the generator, which has pydantic.
TAKES = """\
import json, sys
sys.path.insert(0, sys.argv[1])
import models
with open(sys.argv[2]) as file:
    found = json.load(file)
for title, examples in found.items():
    for example in examples:
        try:
            getattr(models, title).model_validate(example)
        except Exception as failure:
            print(title, json.dumps(example), failure)
            failed = True
sys.exit("failed" in globals())
"""


def main() -> int:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = bundle()
    validate(document)
    print("openapi-spec-validator: the document is valid")
    DOCUMENT.write_text(json.dumps(document))
    EXAMPLES.write_text(json.dumps({title: found for title, found in examples() if title != TAKEN}))
    failed = [*python()]
    modules = ensure()
    if modules is not None:
        failed += typescript(modules)
    for fault in failed:
        print(f"FAILED {fault}")
    total = 5 if modules is not None else 3
    skipped = "" if modules is not None else ", 2 skipped"
    print(f"{total - len(failed)} passed, {len(failed)} failed{skipped}")
    return 1 if failed else 0


def examples() -> Iterator[tuple[str, list[Any]]]:
    """The title of every message with its examples."""
    for schema in schemas().values():
        if "examples" in schema:
            yield schema["title"], schema["examples"]


def python() -> Iterator[str]:
    """What is wrong with the Python types."""
    generator = ROOT / ".envs/types/bin"
    models = OUTPUT / "models.py"
    options = ["--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11", "--use-annotated"]
    options += ["--strict-nullable", "--naming-strategy", "primary-first"]
    made = [generator / "datamodel-codegen", "--input", DOCUMENT, "--input-file-type", "openapi", "--output", models]
    if not runs([*made, *options]):
        yield "datamodel-code-generator"
    elif not runs([generator / "python", "-W", "error", "-c", TAKES, OUTPUT, EXAMPLES]):
        yield "the generated Python types"


def typescript(modules: Path) -> Iterator[str]:
    """What is wrong with the TypeScript types."""
    if not runs(
        [
            modules / ".bin/openapi-typescript",
            DOCUMENT,
            "-o",
            OUTPUT / "api.ts",
            "--default-non-nullable=false",
            "--empty-objects-unknown",
        ]
    ):
        yield "openapi-typescript"
        return
    lines = ['import type { components } from "./api";', 'type Schemas = components["schemas"];']
    for title, found in examples():
        found = [one for one in found if EXTENSIBLE not in json.dumps(one)]
        lines += [f'export const {title}: Schemas["{title}"][] = {json.dumps(found)};']
    (OUTPUT / "examples.ts").write_text("\n".join(lines) + "\n")
    options = ["--noEmit", "--strict", "--target", "es2022", "--moduleResolution", "bundler", "--module", "esnext"]
    if not runs([modules / ".bin/tsc", *options, "--typeRoots", OUTPUT, OUTPUT / "examples.ts"]):
        yield "the generated TypeScript types"


def runs(command: list[str | Path]) -> bool:
    """Whether a command ends well; what it said is shown only when it did not."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    print(f"{Path(command[0]).name}: {'ok' if done.returncode == 0 else 'failed'}")
    if done.returncode != 0:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
