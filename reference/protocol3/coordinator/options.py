"""What a coordinator process is told at its start."""

from dataclasses import dataclass
from pathlib import Path

from protocol3.contract.models.common import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The arguments of `protocol3.coordinator.server.serve`, which runs until it is cancelled.

    The first cancellation drains: no new requests, admitted exchanges may finish (HTTP-083). A second one, during the
    drain, ends at once.
    """

    listen_host: str
    #: 0 lets the system choose; `ready` is called with the URL that was bound.
    listen_port: int
    #: A PostgreSQL URL or DSN. Its schema must be current: `protocol3 orchestrator migrate`.
    database_url: str
    #: The folder of published programs.
    store: Path
    #: The only scope that is served; every other one is not found (HTTP-020).
    fixed_scope: Scope | None = None
    #: Host and port (0 lets the system choose) of `/metrics`; None: there is none.
    metrics_listen: tuple[str, int] | None = None
    #: Serve /testing/v1 (virtual time and faults): for tests only, never in production.
    test_controls: bool = False
