"""Generated histories against a model of the contract; see `protocol3_conformance.stateful`."""

from __future__ import annotations

from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.stateful.search import explore

TASKS = [
    *("TASK-052", "TASK-053", "TASK-054", "TASK-055", "TASK-056", "TASK-100", "TASK-103", "TASK-104", "TASK-105"),
    *("TASK-125", "TASK-126", "TASK-132", "TASK-200", "TASK-202", "TASK-206", "TASK-215", "TASK-216", "TASK-217"),
    *("TASK-218", "TASK-223", "TASK-225", "TASK-226", "DLV-012", "DLV-024", "DLV-058", "DLV-074", "DLV-076"),
    *("DLV-083", "DLV-085", "DLV-087", "DLV-100", "DLV-101", "DLV-102", "DLV-116", "DLV-315", "DLV-316", "DLV-317"),
    *("DLV-318", "DLV-320", "DLV-321", "DLV-322", "DLV-330", "DLV-332", "DLV-334", "DLV-345", "DLV-346", "DLV-347"),
]
WORKFLOWS = [
    *("WF-013", "WF-015", "WF-031", "WF-040", "WF-050", "WF-051", "WF-060", "WF-062", "WF-065", "ACT-020", "ACT-021"),
    *("ACT-022", "ACT-024", "ACT-049", "LOC-004", "DEC-020", "DEC-040", "DEC-041", "DEC-050", "DEC-051", "CHD-011"),
    *("CHD-050", "CHD-052", "CHD-053", "CHD-060", "EVT-011", "EVT-012", "EVT-013", "EVT-015", "TMR-003", "TMR-010"),
    *("TMR-021", "TMR-022", "DRN-003", "DRN-006"),
]
FORKS = [
    *("FRK-002", "FRK-003", "FRK-004", "FRK-006", "FRK-010", "FRK-014", "FRK-018", "FRK-020", "CHD-013", "CHD-022"),
    *("WF-032", "DRN-004", "DRN-007"),
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
