"""The requirements that the chapters state, by ID."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from protocol3_spec.loader import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One numbered sentence of the specification, as its README says; `owned_by` has the IDs that decide instead.

    `chapter` is a file name below `spec/`, `section` a heading in it. `role` is who is bound, `profiles` where the rule
    holds, `observed` how it can be seen: `wire`, `time`, `process`, or `inside` for not at all.
    """

    id: str
    chapter: str
    section: str
    level: str
    role: str
    profiles: tuple[str, ...]
    observed: str
    text: str
    owned_by: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where the sentence stands, for people."""
        return f"{self.chapter}: {self.section}"

    def judged_at(self, role: str) -> bool:
        """Whether a suite that meets this role over its wire could see the rule kept or broken."""
        return self.level == "MUST" and self.role in (role, "everyone") and self.observed in ("wire", "time")


@cache
def requirements() -> Mapping[str, Requirement]:
    """Every requirement of the specification by its ID, in the order of the chapters."""
    rows = read("requirements.json")["requirements"]
    return MappingProxyType(
        {
            row["id"]: Requirement(
                **{**row, "profiles": tuple(row["profiles"]), "owned_by": tuple(row["owned_by"])},
            )
            for row in rows
        }
    )
