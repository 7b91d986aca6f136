"""Generated histories against a model of the contract; see `protocol3_conformance.stateful`."""

from __future__ import annotations

from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.stateful.search import explore

TASKS = [
    *("DLV-022", "DLV-024", "DLV-027", "DLV-028", "DLV-054", "DLV-056", "DLV-057", "DLV-058"),
    *("DLV-074", "DLV-076", "DLV-081", "DLV-083", "DLV-085", "DLV-086", "DLV-100", "DLV-101"),
    *("DLV-315", "DLV-317", "DLV-318", "DLV-319", "DLV-320", "DLV-321", "DLV-322", "DLV-325"),
    *("DLV-326", "DLV-327", "DLV-328", "DLV-330", "DLV-332", "DLV-333", "DLV-334", "DLV-337"),
    *("DLV-339", "DLV-344", "DLV-347", "TASK-043", "TASK-052", "TASK-053", "TASK-054", "TASK-055"),
    *("TASK-056", "TASK-067", "TASK-100", "TASK-103", "TASK-104", "TASK-105", "TASK-123", "TASK-124"),
    *("TASK-125", "TASK-132", "TASK-200", "TASK-215", "TASK-216", "TASK-217", "TASK-218", "TASK-220"),
    *("TASK-223", "TASK-224", "TASK-225", "TASK-226", "TASK-229", "TASK-230", "TASK-231", "TASK-232"),
    *("TASK-233", "TASK-234", "TASK-236", "TASK-237", "TASK-238", "TASK-239"),
]
WORKFLOWS = [
    *("ACT-004", "ACT-007", "ACT-020", "ACT-021", "ACT-022", "ACT-024", "ACT-046", "ACT-049"),
    *("CHD-050", "CHD-052", "CHD-053", "CHD-060", "DEC-042", "DEC-050", "DEC-051", "DRN-006"),
    *("EVT-011", "EVT-012", "EVT-013", "LOC-004", "TMR-010", "TMR-022", "WF-010", "WF-013"),
    *("WF-015", "WF-020", "WF-021", "WF-030", "WF-031", "WF-032", "WF-034", "WF-040"),
    *("WF-051", "WF-060", "WF-061", "WF-062", "WF-066"),
]
FORKS = [
    *("CHD-010", "CHD-013", "CHD-022", "DRN-004", "FRK-004", "FRK-010", "FRK-014", "WF-032"),
]
ISOLATION = ["TASK-050", "TASK-103", "TASK-121", "TASK-228", "DLV-011", "WF-011", "WF-042", "WF-063", "EVT-011"]
"""What shows without waiting. With virtual time the histories let time pass too; that has checks of its own."""


@scenario("stateful/tasks", cites=TASKS, slow=True)
async def test_tasks(lab: Lab) -> None:
    """Whatever clients and workers do with tasks, in whatever order: answers and reads are as the contract says."""
    await explore(lab)


@scenario("stateful/workflows", cites=WORKFLOWS, slow=True)
async def test_workflows(lab: Lab) -> None:
    """Workflows with children, local results, waits, events and cancels are at every moment as the contract says."""
    await explore(lab)


@scenario("stateful/forks", cites=FORKS, profile="forks subworkflows", slow=True)
async def test_forks(lab: Lab) -> None:
    """The same with forks, and with workflows that own workflows."""
    await explore(lab)


@scenario("stateful/two-scopes", cites=ISOLATION, profile="any-scope", slow=True)
async def test_two_scopes(lab: Lab) -> None:
    """Two scopes with the same keys and queues at one time: neither shows, hands out or moves anything of the other."""
    await explore(lab)
