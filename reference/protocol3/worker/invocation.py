"""One invocation in a program process: the frames from `invoke` to `result`."""

from collections.abc import Callable

from protocol3.worker.frames import Invocation, Result, invoke_frame, read_running, reply_frame
from protocol3.worker.process import ProgramProcess
from protocol3.worker.workflow_host import WorkflowHost


async def invoke(
    process: ProgramProcess,
    invocation: Invocation,
    host: WorkflowHost | None,
    *,
    limit: int,
    check: Callable[[], None],
) -> Result:
    """Hand the invocation over once and serve its requests until the result (RUN-034, WRK-043).

    Raises ``invalid_input``, ``runtime`` or ``protocol``, and what the host raises for a request. ``check`` raises when
    user work is over: nothing is performed and no reply is sent after that (RUN-076).
    """
    await process.send(invoke_frame(invocation, limit))
    next_id = 1
    while True:
        frame, line = await process.frame()
        arrived = read_running(frame, line, invocation, next_id)
        if isinstance(arrived, Result):
            return arrived
        if host is None:
            raise RuntimeError("only an activation has requests")
        check()
        result = await host.serve(arrived)
        check()
        await process.send(reply_frame(invocation, arrived, result, limit))
        next_id += 1
