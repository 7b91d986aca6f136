"""Which lab the scenarios of a role get."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from protocol3_conformance.crashes.outage import Outage
from protocol3_conformance.lab import Lab
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenario import Scenario
from protocol3_conformance.target import RUNTIME, WORKER, Target
from protocol3_conformance.worker_lab import WorkerLab

AnyLab = Lab | RuntimeLab | WorkerLab


def open_lab(scenario: Scenario, target: Target, outage: Outage | None = None) -> AbstractAsyncContextManager[AnyLab]:
    """The lab of one scenario; everything that it holds ends with the block. `outage`: see Lab."""
    if scenario.role == RUNTIME:
        return RuntimeLab.open(target, scenario.check_id)
    if scenario.role == WORKER:
        return WorkerLab.open(target, scenario.check_id)
    return Lab.open(target, scenario.check_id, outage)
