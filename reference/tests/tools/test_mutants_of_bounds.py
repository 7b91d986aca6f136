"""Every bound of the protocol is moved by a mutant or says why not, and a mistyped ID is no run without mutants."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LIMITS = "protocol3_spec/limits.json"


@pytest.fixture(scope="module")
def mutants() -> Iterator[SimpleNamespace]:
    """The modules of the tool by name."""
    sys.path.insert(0, str(ROOT / "tools"))
    names = ("bounds", "entries", "matrix", "selection", "__main__")
    yield SimpleNamespace(**{name.strip("_"): import_module(f"mutants.{name}") for name in names})
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def made(mutants: SimpleNamespace) -> Callable[..., Any]:
    """A mutant of one edit."""

    def make(old: str, new: str, of: str | None = None) -> Any:
        edit = mutants.entries.Edit(file=LIMITS, old=old, new=new)
        plain = {"id": "m", "sentence": "s.", "role": "coordinator", "kind": "limit", "breaks": ("DEC-011",)}
        return mutants.entries.Mutant(**plain, source="coordinator-x", edits=(edit,), of=of)

    return make


def test_a_bound_is_moved_where_its_line_changes(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    """By its key or as a constant; in a line that stays it says only where the edit goes, and a twin moves nothing."""
    moved = mutants.bounds.moved
    assert "COMMANDS" in moved([made('"COMMANDS": {"value": 64,', '"COMMANDS": {"value": 65,')])
    assert "COMMANDS" in moved([made("> COMMANDS:", "> COMMANDS + 1:")])
    assert "COMMANDS" in moved([made("> 64:", "> COMMANDS:")])
    assert "COMMANDS" not in moved([made("x = COMMANDS\ny = 1", "x = COMMANDS\ny = 2")])
    assert "COMMANDS" not in moved([made("> NEW_COMMANDS:", "> NEW_COMMANDS + 1:")])
    assert "COMMANDS" not in moved([made("> COMMANDS:", "> COMMANDS + 1:", of="n")])


@pytest.fixture
def one_alone(mutants: SimpleNamespace, made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """There is one mutant, which is called m."""
    alone = [made('"COMMANDS": {"value": 64,', '"COMMANDS": {"value": 65,')]
    monkeypatch.setattr(mutants.main, "read", lambda: alone)
    return alone


def reasoned(folder: Path, entries: str) -> Path:
    (folder / "unproven.toml").write_text(f"[limits]\n{entries}\n")
    return folder


def test_bounds_without_mutant_and_reason(mutants: SimpleNamespace, made: Callable[..., Any], tmp_path: Path) -> None:
    """And a reason for what needs none is as wrong. A profile stands for all of its bounds."""
    faults, one = mutants.bounds.faults, made("> COMMANDS:", "> COMMANDS + 1:")
    missing = {line.partition(":")[0] for line in faults([one], reasoned(tmp_path, ""))}
    assert missing == mutants.bounds.profiles().keys() - {"COMMANDS"}
    home = reasoned(tmp_path, '"UNTIL_KEYS BRANCHES approvals" = "r"\nCOMMANDS = "r"')
    left = list(faults([one], home))
    assert "unproven.toml: a mutant moves COMMANDS, which needs no reason" in left
    named = {line.partition(":")[0] for line in left}
    assert not named & {"UNTIL_KEYS", "BRANCHES", "ACTION_BYTES", "APPROVAL_PAGE"}
    assert "INPUTS: no mutant moves this bound, and unproven.toml has no reason" in left


def test_a_reason_for_what_is_no_bound(mutants: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'COMMAND' is no bound"):
        mutants.bounds.reasons(reasoned(tmp_path, '"COMMANDS COMMAND" = "r"'))


def test_the_bounds_of_the_protocol(mutants: SimpleNamespace) -> None:
    """Of today's mutants, and on the page."""
    today = mutants.entries.read()
    assert list(mutants.bounds.faults(today)) == []
    assert "| CURSOR_BYTES | a cursor that nobody gave out" in "\n".join(mutants.bounds.section(today))


@pytest.mark.usefixtures("one_alone")
@pytest.mark.parametrize(
    "words",
    [
        ["--id", "no-such-mutant"],
        ["--id", "m", "--id", "no-such-mutant"],
        ["--id", "m", "--role", "worker"],
        ["--id", "m", "--kind", "drain"],
        ["--id", "no-such-mutant", "--missing", "--write"],
    ],
)
def test_a_pattern_that_chooses_nothing_is_refused(
    mutants: SimpleNamespace, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is run or written."""
    for name in ("told", "summary"):
        monkeypatch.setattr(mutants.main, name, None)
    monkeypatch.setattr(mutants.matrix, "write", None)
    assert mutants.main.main(words) == 2
    told = capsys.readouterr()
    assert told.err.startswith("mutants: nothing")
    assert told.out == ""


@pytest.mark.usefixtures("one_alone")
def test_nothing_to_do_is_fine(
    mutants: SimpleNamespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the options ask for what there may be none of."""
    monkeypatch.setattr(mutants.selection, "changed_files", lambda: ("changed", set()))
    monkeypatch.setattr(mutants.matrix, "missing", lambda *_: [])
    for words in (["--changed"], ["--missing"], ["--sample", "0"], ["--id", "m", "--missing"]):
        assert mutants.main.main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 0 failed"


def test_the_page_without_a_run(
    mutants: SimpleNamespace, one_alone: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept stays as it is."""
    written: list[Any] = []
    monkeypatch.setattr(mutants.matrix, "write", lambda *what: written.append(what))
    monkeypatch.setattr(mutants.main, "told", None)
    assert mutants.main.main(["--page"]) == 0
    assert written == [(one_alone, mutants.matrix.load())]
