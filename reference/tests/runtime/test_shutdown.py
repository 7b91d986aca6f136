"""The end of a process (chapter 21, Shutdown and exit codes)."""

import pytest

CALLBACKS = """
    import os
    from ledgence.worker import current_invocation, get_logger, register_shutdown
    log = get_logger("x")
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
    register_shutdown(first)
    register_shutdown(failing)
    register_shutdown(first)
    def handle(event):
        register_shutdown(last)
        register_shutdown(first)
        try:
            register_shutdown("text")
        except TypeError:
            return "refused"
"""


@pytest.mark.parametrize("protocol", [2, 3])
def test_callbacks_run_once_in_order_before_closing(hosts, package, protocol):
    """RUN-110, RUN-112, HLP-005, HLP-008."""
    host = hosts(package(CALLBACKS), protocol=protocol).ready()
    assert host.invoke()["output"] == "refused"
    host.send({"v": protocol, "type": "shutdown"})
    assert host.frame() == {"v": protocol, "type": "closing"}
    stderr = host.stderr()
    assert [part.partition(">")[0] for part in stderr.split("<")[1:] if ">" in part][:1] == ["first"]
    assert stderr.count("<first>") == 1
    assert stderr.index("<first>") < stderr.index("<failing>") < stderr.index("of the callback")
    assert stderr.index("<failing>") < stderr.index("<last>")
    assert host.usable
    assert host.silent()
    host.close_stdin()
    assert host.any_frame() is None
    assert host.wait() == 0


def test_protocol_1_closes_without_callbacks(hosts, package):
    """RUN-111."""
    host = hosts(package(CALLBACKS), protocol=1).ready()
    host.send({"v": 1, "type": "shutdown"})
    assert host.frame() == {"v": 1, "type": "closing"}
    assert host.end() == 0
    assert "<first>" not in host.stderr()


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_closing_has_exactly_two_members_and_the_child_stays_until_stdin_ends(hosts, package, protocol):
    """RUN-110."""
    host = hosts(package("def handle(event): return 1"), protocol=protocol).ready()
    host.send({"v": protocol, "type": "shutdown"})
    assert host.any_frame() == {"v": protocol, "type": "closing"}
    assert host.silent()
    assert host.end() == 0


def test_records_of_callbacks_may_precede_closing(hosts, package):
    """RUN-103, RUN-110."""
    source = """
        import time
        from ledgence.worker import get_logger, register_shutdown
        def bye():
            get_logger("x").info("bye")
            time.sleep(0.3)
        register_shutdown(bye)
        def handle(event): return 1
    """
    host = hosts(package(source), protocol=2).ready()
    host.send({"v": 2, "type": "shutdown"})
    assert host.frame() == {"v": 2, "type": "closing"}
    assert [frame["message"] for frame in host.logs] == ["bye"]
    assert "invocation" not in host.logs[0]


def test_a_callback_that_exits_ends_the_child(hosts, package):
    """RUN-112 speaks of exceptions; SystemExit ends the process as everywhere."""
    source = """
        import sys
        from ledgence.worker import register_shutdown
        register_shutdown(lambda: sys.exit(4))
        def handle(event): return 1
    """
    host = hosts(package(source), protocol=2).ready()
    host.send({"v": 2, "type": "shutdown"})
    assert host.any_frame() is None
    assert host.wait() == 4
