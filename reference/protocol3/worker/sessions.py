"""The worker session: opened once, extended hourly, never replaced by this process (WRK-004, WRK-012)."""

import asyncio
from typing import Final

from protocol3.contract.models.delivery import ExtendSession, OpenSession, WorkerSession
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.worker.admission import Admission
from protocol3.worker.clock import now_ms
from protocol3.worker.settings import Pacing, WorkerSettings
from protocol3.worker.transport import Coordinator, Refused, Uncertain

_OPEN_PATH: Final = "/v1/worker-sessions"
_EXTEND_PATH: Final = "/v1/worker-sessions/extend"
_PATIENCE: Final = 1.5
"""In request timeouts: an opening that begins later is the last one."""


class CannotOpen(Exception):
    """No session: the worker cannot start. The message says what to do next."""


async def open_session(coordinator: Coordinator, settings: WorkerSettings) -> WorkerSession:
    """Repeats while the outcome is uncertain, silence at least once (WRK-004). Raises :class:`CannotOpen`."""
    wanted = OpenSession(scope=settings.scope, queue=settings.queue, concurrency=settings.concurrency)
    body = encode(wanted.to_json())
    give_up_ms = now_ms() + _PATIENCE * settings.pacing.request_timeout_ms
    while True:
        try:
            session = WorkerSession.from_json(await coordinator.post(_OPEN_PATH, body), "session")
            break
        except Refused as refused:
            raise CannotOpen(
                f"the coordinator refuses a session: {refused}; check tenant, namespace and queue"
            ) from None
        except Refusal as refusal:
            raise CannotOpen(f"the coordinator's session is not valid: {refusal.message}") from None
        except Uncertain as error:
            if now_ms() >= give_up_ms:
                raise CannotOpen(
                    f"no session at {settings.server}: {error}; is a coordinator running there? See --server"
                ) from None
        await asyncio.sleep(settings.pacing.retry_delay_ms / 1000)
    if (session.scope, session.queue, session.concurrency) != (wanted.scope, wanted.queue, wanted.concurrency):
        raise CannotOpen("the coordinator opened a session for another scope, queue or concurrency")
    return session


async def keep_session(coordinator: Coordinator, session: WorkerSession, admission: Admission, pacing: Pacing) -> None:
    """Extend for ever; ends when the session is gone, which ends admission as well."""
    body = encode(ExtendSession(worker_session_id=session.id).to_json())
    while True:
        await asyncio.sleep(pacing.extend_interval_ms / 1000)
        while True:
            try:
                WorkerSession.from_json(await coordinator.post(_EXTEND_PATH, body), "session")
                break
            except Refused as refused:
                if refused.code != "busy":
                    admission.drain(f"the session cannot be extended: {refused.code}; start a new worker")
                    return
            except (Uncertain, Refusal):
                pass
            await asyncio.sleep(pacing.retry_delay_ms / 1000)
