"""`protocol3 schemas export`."""

import json
from pathlib import Path

from click.testing import CliRunner
from jsonschema import Draft202012Validator

from protocol3.cli.root import root
from protocol3_spec import openapi, schemas


def test_export_writes_what_the_package_holds(tmp_path: Path) -> None:
    """References between the files work where they are written."""
    folder = tmp_path / "new" / "spec"
    done = CliRunner().invoke(root, ["schemas", "export", str(folder)])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["directory"] == str(folder)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.json")} == set(told["files"])
    assert json.loads((folder / "openapi.json").read_text()) == openapi()
    for name, schema in schemas().items():
        assert json.loads((folder / "schemas" / f"{name}.json").read_text()) == schema
    assert {"limits.json", "errors.json", "states.json", "routes.json", "schemas/meta/dialect.json"} <= {*told["files"]}
    assert "openapi.bundle.json" not in told["files"]


def test_bundle_is_one_document(tmp_path: Path) -> None:
    assert CliRunner().invoke(root, ["schemas", "export", str(tmp_path), "--bundle"]).exit_code == 0
    document = json.loads((tmp_path / "openapi.bundle.json").read_text())
    assert "SubmitCommand" in document["components"]["schemas"]
    assert ".json" not in json.dumps([path["post"] for path in document["paths"].values() if "post" in path])


def test_every_schema_is_a_definition_of_one_document(tmp_path: Path) -> None:
    """A validator that knows nothing but this file takes every example and refuses what is no message."""
    assert CliRunner().invoke(root, ["schemas", "export", str(tmp_path), "--bundle"]).exit_code == 0
    document = json.loads((tmp_path / "schemas.bundle.json").read_text())
    Draft202012Validator.check_schema(document)
    for schema in schemas().values():
        judge = Draft202012Validator({**document, "$ref": f"#/$defs/{schema['title']}"})
        assert all(judge.is_valid(example) for example in schema.get("examples", ()))
        assert "examples" not in schema or not judge.is_valid({"no": "message"}) or not judge.is_valid(0)


def test_a_file_in_the_way_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    refused = CliRunner().invoke(root, ["schemas", "export", str(tmp_path / "taken")])
    assert refused.exit_code == 2


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "schemas").write_text("in the way of the folder of that name")
    refused = CliRunner().invoke(root, ["schemas", "export", str(tmp_path)])
    assert refused.exit_code == 1
    assert json.loads(refused.stderr)["code"] == "io"
