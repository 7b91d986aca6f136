"""The end of a program process (chapter 21, Shutdown and exit codes)."""

from __future__ import annotations

import re

from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check

CALLBACKS = """
    import os
    from ledgence.worker import current_invocation, register_shutdown
    def say(text):
        os.write(2, f"<{text}>".encode())
    def first():
        say("first")
    def failing():
        say("failing")
        raise ValueError("of the callback")
    def last():
        try:
            current_invocation()
        except RuntimeError:
            say("last")
    class Bound:
        def bye(self):
            say("bound")
    bound = Bound()
    register_shutdown(first)
    register_shutdown(failing)
    register_shutdown(bound.bye)
    register_shutdown(first)
    register_shutdown(bound.bye)
    def handle(event):
        register_shutdown(last)
        register_shutdown(first)
        try:
            register_shutdown("text")
        except TypeError:
            return "refused"
"""


@runtime_check("runtime-shutdown/callbacks", cites=["RUN-110", "RUN-112", "HLP-005", "HLP-008"])
async def test_callbacks(lab: RuntimeLab) -> None:
    """Callbacks run once, in the order of registration, before `closing`; one that raises stops nothing."""
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(CALLBACKS, protocol=protocol).ready()
            assert (await program.invoke())["output"] == "refused"
            assert (await program.shut_down() or {}).get("type") == "closing"
            said = program.process.stderr()
            assert re.findall(r"<(first|failing|bound|last)>", said) == ["first", "failing", "bound", "last"]
            assert "of the callback" in said
            assert await program.silent()
            assert program.process.alive
            assert await program.finish() == 0


@runtime_check("runtime-shutdown/protocol-1", cites=["RUN-111"])
async def test_protocol_1(lab: RuntimeLab) -> None:
    """Protocol 1 writes `closing` without callbacks."""
    program = await lab.start(CALLBACKS, protocol=1).ready()
    assert (await program.shut_down() or {}).get("type") == "closing"
    assert await program.finish() == 0
    assert "<" not in re.sub(r"<frozen[^>]*>", "", program.process.stderr())


@runtime_check("runtime-shutdown/stays-until-the-end", cites=["RUN-110", "RUN-113"])
async def test_stays(lab: RuntimeLab) -> None:
    """After `closing` the process stays until standard input ends, then exits with 0."""
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start("def handle(event): return 1", protocol=protocol).ready()
            assert (await program.shut_down() or {}).get("type") == "closing"
            assert await program.silent()
            assert program.process.alive
            assert await program.finish() == 0


@runtime_check("runtime-shutdown/records-of-callbacks", cites=["RUN-103", "RUN-110", "HLP-013"])
async def test_records_of_callbacks(lab: RuntimeLab) -> None:
    """A callback may log; its record precedes `closing` and names no invocation."""
    source = """
        import time
        from ledgence.worker import get_logger, register_shutdown
        def bye():
            get_logger("x").info("bye")
            time.sleep(0.3)
        register_shutdown(bye)
        def handle(event): return 1
    """
    program = await lab.start(source, protocol=2).ready()
    assert (await program.shut_down() or {}).get("type") == "closing"
    assert [(frame["message"], "invocation" in frame) for frame in program.logs] == [("bye", False)]
