"""`./dev mutants` must not call a mutant killed that is not, nor pass over one that is described wrongly."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3_conformance.scenarios.coordinator import test_renewal as renewal_checks
from protocol3_conformance.verdict import Outcome, State

ROOT = Path(__file__).parents[3]
PLACES = [str(ROOT / name) for name in ("tools", "reference", "conformance", "spec")]
SEQUENCE = "command.sequence > accepted + 1"


@pytest.fixture(scope="module")
def mutants() -> Iterator[SimpleNamespace]:
    """The modules of the tool by name."""
    sys.path.insert(0, str(ROOT / "tools"))
    names = ("copies", "entries", "judging", "matrix", "run", "selection", "subjects", "__main__")
    yield SimpleNamespace(**{name.strip("_"): import_module(f"mutants.{name}") for name in names})
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def made(mutants: SimpleNamespace) -> Callable[..., Any]:
    """A mutant that skips a sequence of renewals, with changes. `edits` are triples."""

    def make(edits: Any = (("core/renewal.py", SEQUENCE, "command.sequence > accepted + 2"),), **changes: Any) -> Any:
        plain = {
            "id": "m",
            "sentence": "s.",
            "role": "coordinator",
            "kind": "replay",
            "breaks": ("DLV-330",),
            "source": "coordinator-x",
        }
        triples = tuple(mutants.entries.Edit(file=file, old=old, new=new) for file, old, new in edits)
        return mutants.entries.Mutant(edits=triples, **{**plain, **changes})

    return make


def outcome(state: State, *cites: str, check_id: str = "a/b", about: tuple[str, ...] = ()) -> Outcome:
    return Outcome(check_id=check_id, title="t", state=state, cites=cites, profiles=("core",), broken=about or cites)


@pytest.mark.parametrize(
    ("outcomes", "verdict", "twin"),
    [
        ([outcome(State.FAILED, "DLV-330")], "killed", "falsely failed"),
        ([outcome(State.FAILED, "DLV-331"), outcome(State.FAILED, "DLV-330")], "killed", "falsely failed"),
        ([outcome(State.FAILED, "DLV-331")], "wrong reason", "falsely failed"),
        ([outcome(State.FAILED, "DLV-330", about=("HTTP-030",))], "killed", "falsely failed"),
        ([outcome(State.FAILED, "DLV-331", about=("HTTP-030",))], "wrong reason", "falsely failed"),
        ([outcome(State.HARNESS_ERROR, "DLV-330")], "survived", "falsely failed"),
        ([outcome(State.NOT_DETERMINED, "DLV-330"), outcome(State.PASSED, "DLV-330")], "survived", "harmless"),
        ([], "survived", "falsely failed"),
    ],
)
def test_the_verdict(
    mutants: SimpleNamespace, made: Callable[..., Any], outcomes: list[Outcome], verdict: str, twin: str
) -> None:
    """Only a check that fails over a broken rule kills; a twin needs checks, all of which say nothing against it."""
    assert mutants.judging.ruling(made(), outcomes).verdict == verdict
    assert mutants.judging.ruling(made(of="n"), outcomes).verdict == twin


def test_any_check_kills_what_names_no_rule(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    """As those drawn at random."""
    assert mutants.judging.ruling(made(breaks=()), [outcome(State.FAILED, "EVT-018")]).verdict == "killed"
    assert mutants.judging.ruling(made(breaks=()), [outcome(State.PASSED, "EVT-018")]).verdict == "survived"


def test_what_was_named_is_what_is_shown(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    """A check proves no more of a mutant than what its failure names, if the mutant breaks that."""
    mutant = made(breaks=("DLV-330", "DLV-331"))
    for named, shown in [("DLV-331", ("DLV-331",)), ("HTTP-030", ("DLV-330", "DLV-331"))]:
        failure = outcome(State.FAILED, "DLV-330", "DLV-331", about=(named,))
        assert [rules for _, rules in mutants.judging.ruling(mutant, [failure]).killers] == [shown]


def test_what_is_enough(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    """The first kill; for a proof a kill for each broken rule that any check cites; for a twin everything."""
    effort, enough = mutants.judging.Effort, mutants.judging.enough
    checks = [SimpleNamespace(cites=("DLV-330", "DLV-331")), SimpleNamespace(cites=("DLV-326",))]
    mutant = made(breaks=("DLV-330", "DLV-331", "WRK-001"))
    first, second = outcome(State.FAILED, "DLV-330"), outcome(State.FAILED, "DLV-331", check_id="c/d")
    assert not enough(mutant, checks, [outcome(State.PASSED, "DLV-330")], effort())
    assert enough(mutant, checks, [first], effort())
    assert not enough(mutant, checks, [first], effort(prove=True))
    assert enough(mutant, checks, [first, second], effort(prove=True))
    assert not enough(mutant, checks, [first, second], effort(on=True))
    assert not enough(made(of="n"), checks, [first, second], effort())
    assert enough(made(breaks=()), checks, [first], effort(prove=True))


def test_every_check_is_every_check(
    mutants: SimpleNamespace, made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a mutant that the checks about it have killed already."""
    judging = mutants.judging
    about, rest = [SimpleNamespace(check_id="a/b")], [SimpleNamespace(check_id="c/d")]

    def conducted(_: Any, __: Any, checks: Any, *___: Any, end: float) -> list[Outcome]:
        return [outcome(State.FAILED, "DLV-330", check_id=one.check_id) for one in checks]

    monkeypatch.setattr(judging, "rounds", lambda *_, **__: iter([about, rest]))
    monkeypatch.setattr(judging, "_conducted", conducted)

    def judged(every: bool) -> list[str]:
        outcomes, _ = judging._judged(made(), None, judging.Effort(every=every, on=True))
        return [one.check_id for one in outcomes]

    assert (judged(False), judged(True)) == (["a/b"], ["a/b", "c/d"])


NOTHING = (("core/renewal.py", '"""Renewing a lease', '"""Renewing one lease'),)
JSON_ZERO = (("contract/strict_json.py", "return -0.0  # JSON-022", "return 0"),)
DEAD = (("core/renewal.py", "def renew(", "raise RuntimeError('dead')\n\n\ndef renew("),)
MUTE = (
    (
        "runtime/ledgence/worker/_frames.py",
        "        rest = memoryview(frame)\n",
        "        import time\n        time.sleep(600)\n",
    ),
)


@pytest.fixture(scope="module")
def rulings(mutants: SimpleNamespace, made: Callable[..., Any]) -> dict[str, Any]:
    """What real runs say of one mutant of each kind, by its ID."""
    several = [
        made(id="fault"),
        made(id="nothing", edits=NOTHING),
        made(id="wrong-reason", edits=JSON_ZERO, breaks=("EVT-018",)),
        made(id="dead", edits=DEAD),
        made(id="false-twin", of="fault"),
        made(id="harmless-twin", edits=NOTHING, of="fault"),
    ]
    found = list(mutants.run.rulings(several, mutants.judging.Effort(), jobs=2))
    mute = made(id="mute", edits=MUTE, role="runtime", breaks=("RUN-031",))
    found += mutants.run.rulings([mute], mutants.judging.Effort(seconds=1.0), jobs=1)
    return {ruling.mutant.id: ruling for ruling in found}


def test_what_real_runs_say(rulings: dict[str, Any]) -> None:
    assert {name: str(ruling.verdict) for name, ruling in rulings.items()} == {
        "fault": "killed",
        "nothing": "survived",
        "wrong-reason": "wrong reason",
        "dead": "stillborn",
        "false-twin": "falsely failed",
        "harmless-twin": "harmless",
        "mute": "survived",
    }


def test_the_checks_behind_the_verdicts(rulings: dict[str, Any]) -> None:
    assert [rules for _, rules in rulings["fault"].killers] == [("DLV-330",)]
    assert rulings["nothing"].checks > 10
    assert rulings["wrong-reason"].killers == ()
    assert rulings["wrong-reason"].others
    assert "RuntimeError: dead" in rulings["dead"].detail
    assert rulings["mute"].detail.startswith(f"{rulings['mute'].unended} checks did not end: ")
    assert rulings["mute"].unended > 0


def test_only_killed_and_harmless_end_well(
    mutants: SimpleNamespace, rulings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"fault", "harmless-twin"}
    for name, ruling in rulings.items():
        assert mutants.main.summary([ruling], 0, 1.0) == (0 if name in good else 1)
    assert mutants.main.summary(list(rulings.values()), 3, 1.0) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 5 failed, 3 skipped"


def test_a_budget_that_is_spent_begins_nothing(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    mute = made(edits=MUTE, role="runtime")
    assert list(mutants.run.rulings([mute], mutants.judging.Effort(), jobs=1, budget=0)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_signal_leaves_nothing_behind() -> None:
    """The processes of the pool end with their parent, and so do the coordinators that they started."""
    mark = f"MARK={uuid.uuid4()}"
    environment = os.environ | dict([mark.split("=")], PYTHONPATH=os.pathsep.join(PLACES))
    words = [sys.executable, "-m", "mutants", "--id", "coordinator-waits", "--all-killers", "--jobs", "1"]
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as parent:
        _until(lambda: "serve" in " ".join(_marked(mark)))
        parent.terminate()
        parent.wait(60)
        _until(lambda: not _marked(mark))


def _marked(mark: str) -> list[str]:
    """The command lines of processes with this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_edited_copy_is_what_runs(mutants: SimpleNamespace, made: Callable[..., Any], tmp_path: Path) -> None:
    """Modules, and data of the specification."""
    edits = [
        ("contract/limits.py", '_bound("LEASE_MS")', '_bound("LEASE_MS") + 7'),
        ("protocol3_spec/limits.json", '"LEASE_MS": {"value": 60000', '"LEASE_MS": {"value": 50000'),
    ]
    mutants.copies.copy(made(edits), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from protocol3.contract.limits import LEASE_MS; print(LEASE_MS)"],
        env=mutants.subjects.environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "50007\n"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"edits": [("core/renewal.py", "attempt", "x")]}, "has the old text"),
        ({"edits": [("core/renewal.py", "no such text", "x")]}, "has the old text 0 times"),
        ({"edits": [("core/no.py", "a", "b")]}, "there is no file reference/protocol3/core/no.py"),
        ({"edits": [("core/renewal.py", SEQUENCE, "(")]}, "core/renewal.py:"),
        ({"edits": [("protocol3_spec/limits.json", '"LEASE_MS"', "LEASE_MS")]}, "limits.json: "),
        ({"edits": [("core/renewal.py", SEQUENCE, SEQUENCE)]}, "an edit changes nothing"),
        ({"edits": []}, "there is no edit"),
        ({"id": "Not_a_slug"}, "an id is words of"),
        ({"kind": "other"}, "kind 'other' is none of"),
        ({"breaks": ()}, "at least one"),
        ({"breaks": ("DLV-330", "DLV-330")}, "at least one"),
        ({"breaks": ("DLV-999",)}, "no requirement is called DLV-999"),
        ({"processes": 4}, "1 to 3 processes"),
        ({"processes": 2, "role": "worker"}, "1 to 3 processes"),
        ({"seen": "somewhere"}, "owner/repository#number"),
    ],
)
def test_what_is_wrong_with_a_description(
    mutants: SimpleNamespace, made: Callable[..., Any], changes: dict[str, Any], fault: str
) -> None:
    (found,) = mutants.entries.faults([made(**changes)])
    assert fault in found


def test_what_is_wrong_between_descriptions(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    assert list(mutants.entries.faults([made(), made(edits=NOTHING)])) == ["m: 2 mutants have this id"]
    (found,) = mutants.entries.faults([made(), made(id="n-twin", edits=NOTHING, of="m")])
    assert "begins with m-twin" in found
    (found,) = mutants.entries.faults([made(), made(id="m-twin", edits=NOTHING, of="m", role="worker")])
    assert "another role" in found
    assert list(mutants.entries.faults([made(), made(id="m-twin", edits=NOTHING, of="m")])) == []


def test_two_mutants_of_one_text_are_refused(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    """Wherever their anchors begin and end; the same fault in more processes is another mutant."""
    wider = [("core/renewal.py", f"{SEQUENCE}:", "command.sequence > accepted + 2:")]
    for same in (made(id="n"), made(id="n", edits=wider, breaks=("DLV-331",)), made(id="m-twin", of="m")):
        assert list(mutants.entries.faults([made(), same])) == [f"m and {same.id} are the same edit"]
    assert list(mutants.entries.faults([made(), made(id="n", processes=2)])) == []
    assert list(mutants.entries.faults([made(), made(id="n", edits=NOTHING)])) == []


ENTRY = """[[mutant]]
id = "a"
sentence = "s"
kind = "replay"
breaks = ["DLV-330"]
file = "core/renewal.py"
old = "a"
new = "b"
"""
TWIN = '[[mutant]]\nid = "a-twin"\nof = "a"\nsentence = "t"\nfile = "core/renewal.py"\nold = "c"\nnew = "d"\n'


def test_a_twin_has_kind_and_rules_of_its_mutant(mutants: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "worker-x.toml").write_text(ENTRY + TWIN)
    first, twin = mutants.entries.read(tmp_path)
    assert (twin.kind, twin.breaks, twin.role, twin.of) == ("replay", ("DLV-330",), "worker", "a")
    assert first.digest != twin.digest


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("worker-x.toml", ENTRY.replace("sentence", "sentense"), "unknown sentense"),
        ("worker-x.toml", ENTRY.replace('sentence = "s"\n', ""), "lacks 'sentence'"),
        ("worker-x.toml", TWIN, "names a mutant that is no twin"),
        ("worker-x.toml", ENTRY + TWIN + 'kind = "race"\n', "kind, breaks and processes are that one's"),
        ("worker-x.toml", ENTRY + TWIN + TWIN.replace('"a', '"a-twin'), "names a mutant that is no twin"),
        ("worker-x.toml", "mutant = 1 2", "worker-x.toml"),
        ("worker-x.toml", "[other]", "nothing but"),
        ("misc.toml", ENTRY, "a name begins with"),
    ],
)
def test_a_file_that_is_not_as_it_must_be(
    mutants: SimpleNamespace, tmp_path: Path, name: str, text: str, fault: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(mutants.entries.BadEntry, match=fault):
        mutants.entries.read(tmp_path)


def test_a_stale_matrix_is_seen(mutants: SimpleNamespace, made: Callable[..., Any], tmp_path: Path) -> None:
    matrix, results, page = mutants.matrix, tmp_path / "results", tmp_path / "page.md"
    some = [made(), made(id="m-twin", of="m")]
    ruled = [mutants.judging.ruling(some[0], [outcome(State.FAILED, "DLV-330")])]
    ruled += [mutants.judging.ruling(some[1], [outcome(State.PASSED, "DLV-330")])]

    def stale(now: list[Any], rulings: list[Any] = ruled) -> list[str]:
        matrix.write(some, matrix.merged({}, rulings), results, page)
        return list(matrix.stale(now, matrix.load(results), page))

    assert stale(some) == []
    assert matrix.proven(some, matrix.load(results)) == {"DLV-330"}
    assert "m-twin: in the matrix, but" in stale(some[:1])[0]
    assert "n: not in the matrix" in stale([*some, made(id="n")])[0]
    assert "m: changed since" in stale([made(sentence="other."), some[1]])[0]
    assert "m: survived" in stale(some, [mutants.judging.ruling(some[0], []), ruled[1]])[0]
    assert matrix.missing(some, matrix.load(results)) == some[:1]
    page.write_text("old")
    assert "page.md is not what" in list(matrix.stale(some, matrix.load(results), page))[-1]


def test_the_results_of_a_file_that_is_gone_go(
    mutants: SimpleNamespace, made: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "worker-gone.json").write_text("{}")
    mutants.matrix.write([made()], {}, tmp_path, tmp_path / "page.md")
    assert [path.name for path in tmp_path.glob("*.json")] == ["coordinator-x.json"]


def test_what_a_change_touches(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    one, other = made(), made(id="o", source="coordinator-y", edits=JSON_ZERO, breaks=("JSON-022",))
    checks = Path(renewal_checks.__file__).relative_to(ROOT).as_posix()
    for file, expected in (
        ("conformance/mutants/coordinator-y.toml", [other]),
        ("reference/protocol3/core/renewal.py", [one]),
        (checks, [one]),
        ("README.md", []),
    ):
        assert list(mutants.selection.touched([one, other], {file})) == expected


def test_since_when_something_changed(mutants: SimpleNamespace, tmp_path: Path) -> None:
    """A branch since it left the main one; the main one since its last commit; nothing without history."""

    def git(*words: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text("x")
        git("add", ".")
        git("commit", "-q", "-m", name)

    changed = mutants.selection.changed_files
    assert changed(tmp_path) == ("there is no history to tell what changed", set())
    git("init", "-q", "-b", "main")
    commit("first")
    assert changed(tmp_path)[1] == set()
    commit("second")
    assert changed(tmp_path)[1] == {"second"}
    git("checkout", "-q", "-b", "branch")
    commit("third")
    commit("fourth")
    assert changed(tmp_path)[1] == {"third", "fourth"}


def test_a_sample_is_that_of_its_seed(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    many = [made(id=f"m-{number}") for number in range(30)]
    sample = mutants.selection.sample
    assert sample(many, 5, 1) == sample(many, 5, 1)
    assert sample(many, 5, 1) != sample(many, 5, 2)
    assert len(set(sample(many, 99, 1))) == 30


def test_a_twin_comes_with_its_mutant(mutants: SimpleNamespace, made: Callable[..., Any]) -> None:
    some = [made(id="a"), made(id="a-twin", of="a"), made(id="b", source="coordinator-y")]
    named = mutants.selection.named
    assert named(some, ids=["a"], kind=None, role=None) == some[:2]
    assert named(some, ids=["coordinator-y"], kind=None, role=None) == some[2:]
    assert named(some, ids=[], kind="race", role=None) == []
