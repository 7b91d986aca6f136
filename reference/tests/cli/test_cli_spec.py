"""`protocol3 spec`."""

import json
import sys

import pytest
from click.testing import CliRunner, Result

from protocol3.cli.root import root
from protocol3_spec import requirements


def run(*words: str) -> Result:
    return CliRunner().invoke(root, ["spec", *words])


def test_every_requirement_is_shown_by_its_id() -> None:
    done = run("show", *requirements())
    assert done.exit_code == 0
    shown = json.loads(done.stdout)["requirements"]
    assert [one["id"] for one in shown] == [*requirements()]
    members = {"id", "chapter", "section", "level", "role", "profiles", "observed", "owned_by", "text"}
    assert all(one.keys() == members and one["text"] and one["profiles"] for one in shown)


def test_an_id_may_be_written_small() -> None:
    first = next(iter(requirements()))
    assert json.loads(run("show", first.lower()).stdout)["requirements"][0]["id"] == first


def test_an_unknown_id_is_refused_and_the_nearest_named() -> None:
    first = next(iter(requirements()))
    refused = run("show", first, f"{first}1")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    told = json.loads(refused.stderr)
    assert told["code"] == "not_found"
    assert f"{first}1" in told["message"]
    assert first in told["next"]


def test_search_wants_every_word_in_any_case() -> None:
    found = json.loads(run("search", "LEASE", "expire").stdout)["requirements"]
    assert found
    for one in found:
        text = f"{one['id']} {one['section']} {one['text']}".lower()
        assert "lease" in text
        assert "expire" in text
    assert json.loads(run("search", "no such words anywhere").stdout) == {"requirements": []}


@pytest.mark.parametrize(
    ("option", "value", "member"),
    [("--role", "worker", "role"), ("--level", "should", "level"), ("--profile", "forks", "profiles")],
)
def test_search_within(option: str, value: str, member: str) -> None:
    everything = json.loads(run("search", "a").stdout)["requirements"]
    found = json.loads(run("search", "a", option, value).stdout)["requirements"]
    wanted = value.upper() if member == "level" else value
    assert found == [one for one in everything if wanted in ([one[member]] if member != "profiles" else one[member])]
    assert 0 < len(found) < len(everything)


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    owned = next(one for one in requirements().values() if one.owned_by)
    with CliRunner().isolation() as (out, _, _):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        root.main(["spec", "show", owned.id], standalone_mode=False)
        plain = out.getvalue().decode()
        root.main(["spec", "show", owned.id, "--json"], standalone_mode=False)
        assert '"chapter"' in out.getvalue().decode().removeprefix(plain)
    assert owned.id in plain
    assert f"spec/{owned.chapter}: {owned.section}" in plain
    assert f"decided by: {', '.join(owned.owned_by)}" in plain
    assert owned.role in plain
    assert owned.level in plain
