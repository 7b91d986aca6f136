"""Which rules that can be seen from outside no check of the conformance suite cites.

    python tools/conformance_gaps.py [--role coordinator|runtime|worker] [--counts]

It looks at every MUST of a role in the profiles that the suite judges. A rule is checked if a check of that role cites
it, or if the part of the wire layer that judges every exchange of the role names it in a violation.
`tools/conformance_gaps.toml` has the reasons for rules that no check can show; one that is checked all the same is an
error. Ends with 1 if a rule is left.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "conformance/protocol3_conformance"
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "spec")]

from citations import Catalogue, Module, sources  # noqa: E402 - the path above
from protocol3_conformance import catalogue as suite  # noqa: E402 - the path above
from protocol3_conformance.requirements import Requirement, requirements  # noqa: E402 - the path above
from protocol3_conformance.scenario import Scenario  # noqa: E402 - the path above

REASONS = ROOT / "tools" / "conformance_gaps.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What of the catalogue a role has to obey where it can be seen, and the code that judges all that it says.

    `shared` are the prefixes of rules for everyone that bind it; None is all of them.
    """

    profiles: frozenset[str]
    observed: frozenset[str]
    shared: tuple[str, ...] | None
    judges: tuple[str, ...]

    def binds(self, name: str, rule: Requirement) -> bool:
        """Whether the rule decides something that the role shows: repetitions of other rules do not."""
        shared = self.shared is None or rule.id.startswith(self.shared)
        return (
            rule.level == "MUST"
            and (rule.role == name or (rule.role == "everyone" and shared))
            and rule.observed in self.observed
            and bool(self.profiles.intersection(rule.profiles))
            and not rule.owned_by
        )


COMMON = frozenset({"core", "workflows", "forks", "subworkflows"})
OUTSIDE = frozenset({"wire", "process", "time"})
OF_PIPES = ("wire/frames.py", "wire/pipes.py", "wire/frame_transcript.py")
OF_WORKERS = ("wire/server.py", "roles/coordinator.py")
ROLES = {
    "coordinator": Role(
        profiles=COMMON | {"discovery", "virtual-time", "faults"},
        observed=frozenset({"wire", "time"}),
        shared=None,
        judges=("wire",),
    ),
    "runtime": Role(
        profiles=COMMON | {"approvals", "operations"}, observed=OUTSIDE, shared=("RUN-", "HLP-"), judges=OF_PIPES
    ),
    "worker": Role(profiles=COMMON, observed=OUTSIDE, shared=("RUN-", "WRK-", "PKG-"), judges=OF_WORKERS),
}


def judged_always(role: str) -> Iterator[str]:
    """The rules that violations found by the role's judges name: strings of their code, not of its documentation."""
    known = Catalogue(list(requirements()))
    elsewhere = {SUITE / name for other, one in ROLES.items() if other != role for name in one.judges}
    for place in (SUITE / name for name in ROLES[role].judges):
        for path in sources(place) if place.is_dir() else [place]:
            if path in elsewhere:
                continue
            for text in Module(path).strings():
                yield from (named.identifier for named in known.named(text.value))


def report(role: str, checks: Sequence[Scenario], reasons: Mapping[str, str], *, counts: bool) -> bool:
    """Print what is left and the sum. Whether nothing is, and no reason is needless."""
    cited = {identifier for check in checks for identifier in check.cites}
    checked = cited | set(judged_always(role))
    rules = {rule.id: rule for rule in requirements().values() if ROLES[role].binds(role, rule)}
    gaps = [rule for rule in rules.values() if rule.id not in checked and rule.id not in reasons]
    needless = [name for name in reasons if name in checked or name not in rules]
    if not counts:
        for rule in gaps:
            print(f"{rule.id} ({', '.join(rule.profiles)}; {rule.observed}) {rule.text}")
        for name in needless:
            print(f"{REASONS.name}: {name} is checked, or needs no check")
    print(
        f"{len(checks)} checks cite {len(cited)} rules; of {len(rules)} rules of a {role} that can be seen "
        f"{len(rules.keys() & checked)} are checked, {len(reasons)} have a reason, {len(gaps)} are left"
    )
    return not gaps and not needless


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=ROLES, help="only this role")
    parser.add_argument("--counts", action="store_true", help="only the last line of each role")
    arguments = parser.parse_args(words)
    everything = suite.everything().values()
    reasons: dict[str, dict[str, str]] = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    closed = [
        report(
            role, [check for check in everything if check.role == role], reasons.get(role, {}), counts=arguments.counts
        )
        for role in ([arguments.role] if arguments.role else ROLES)
    ]
    return 0 if all(closed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
