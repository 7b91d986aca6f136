"""Log frames and `get_logger` (chapters 21 and 23)."""

import json
import re
import textwrap

import pytest

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
LOG = "from ledgence.worker import get_logger\nlog = get_logger('lab.logs')\n"


def drained(host, count=None):
    """Log frames so far; waits until `count` have come or a marker record arrives."""
    while count is None or len(host.logs) < count:
        frame = host.any_frame()
        assert frame["type"] == "log", frame
        host.logs.append(frame)
    logs, host.logs = host.logs, []
    return logs


def logged(lab, code, count=1, **changes):
    """Run a task and return its first `count` records."""
    result = lab.task(LOG + code, **changes)
    assert result["status"] == "success", result
    return drained(lab.host, count)


@pytest.mark.parametrize("name", ["lab", "lab2"])
def test_a_record_has_these_members(request, name):
    """Chapter 21, Logs, HLP-012, HLP-013; protocol 2 names no workflow (RUN-116)."""
    lab = request.getfixturevalue(name)
    [frame] = logged(lab, "log.warning('hello %s', 'you', extra={'attributes': {'a': [1, None]}})")
    assert TIME.fullmatch(frame.pop("time"))
    assert frame == {
        "v": lab.host.protocol,
        "type": "log",
        "severity": "WARNING",
        "logger": "lab.logs",
        "message": "hello you",
        "attributes": {"a": [1, None]},
        "invocation": {
            "event_id": "ev",
            "attempt_id": "at",
            "source": "urn:host",
            "tenant_id": "tenant",
            "namespace": "space",
            "run_id": "run",
            "task_id": "act",
            "attempt_no": 1,
        },
    }


def test_absent_identities_are_left_out(lab):
    """Chapter 21, Logs: never null (RUN-116)."""
    [frame] = logged(lab, "log.info('x')", event={"ldgrunid": ..., "ldgattemptno": ...})
    assert frame["invocation"].keys() == {"event_id", "attempt_id", "source", "tenant_id", "namespace", "task_id"}


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        ({}, {"workflow_id": "wf", "activation_id": "act"}),
        (
            {"parent_workflow_id": "p", "root_workflow_id": "r"},
            {"workflow_id": "wf", "activation_id": "act", "parent_workflow_id": "p", "root_workflow_id": "r"},
        ),
    ],
)
def test_an_activation_names_its_workflow(lab, payload, named):
    """HLP-014."""
    lab.completed(LOG + "log.info('x')\nreturn ctx.complete(None)", **payload)
    [frame] = drained(lab.host, 1)
    found = {name: value for name, value in frame["invocation"].items() if "workflow" in name or "activ" in name}
    assert found == named


def test_a_task_inside_a_workflow_names_it_in_protocol_3_only(lab, lab2):
    """HLP-014, RUN-106."""
    inside = {"ldgworkflowid": "wf"}
    [frame] = logged(lab, "log.info('x')", event=inside)
    assert frame["invocation"]["workflow_id"] == "wf"
    assert "activation_id" not in frame["invocation"]
    [frame] = logged(lab2, "log.info('x')", event=inside)
    assert "workflow_id" not in frame["invocation"]


def test_trace_ids_come_from_the_processing_context(lab):
    """HLP-015, with the bridge off."""
    [frame] = logged(lab, "log.info('x')", processing_context={"traceparent": PARENT})
    assert (frame["trace_id"], frame["span_id"]) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    [frame] = logged(lab, "log.info('x')", event={"traceparent": PARENT})
    assert not frame.keys() & {"trace_id", "span_id"}


def test_protocol_1_has_no_log_frames(hosts, package):
    """RUN-096, HLP-017: logging works, and stays inside."""
    source = """
        from ledgence.worker import get_logger
        log = get_logger("x")
        log.error("importing")
        def handle(event):
            log.error("running")
            return log.level
    """
    host = hosts(package(source), protocol=1).ready()
    assert host.invoke()["output"] == 20
    host.send({"v": 1, "type": "shutdown"})
    assert host.frame() == {"v": 1, "type": "closing"}
    assert host.logs == []


@pytest.mark.parametrize("protocol", [2, 3])
def test_records_logged_while_importing_follow_ready(hosts, package, protocol):
    """RUN-102, HLP-013: without an invocation."""
    source = """
        from ledgence.worker import get_logger
        get_logger("x").info("importing")
        def handle(event): return 1
    """
    host = hosts(package(source), protocol=protocol)
    assert host.any_frame()["type"] == "ready"
    frame = host.any_frame()
    assert frame["message"] == "importing"
    assert "invocation" not in frame


def test_a_record_says_what_was_true_when_it_was_logged(lab):
    """RUN-097."""
    code = """
        attributes = {"list": [1], "n": 1}
        log.info("x", extra={"attributes": attributes})
        attributes["list"].append(2)
        attributes["n"] = 2
        event["id"] = "changed"
    """
    [frame] = logged(lab, textwrap.dedent(code))
    assert frame["attributes"] == {"list": [1], "n": 1}
    assert frame["invocation"]["event_id"] == "ev"


def test_a_copied_context_keeps_its_identity(lab):
    """HLP-016: a thread of the first invocation logs during the second."""
    first = """
        import contextvars, threading
        context, gate = contextvars.copy_context(), threading.Event()
        memory["gate"] = gate
        def work():
            gate.wait()
            context.run(log.info, "from the thread")
        memory["thread"] = threading.Thread(target=work, daemon=True)
        memory["thread"].start()
    """
    lab.output(LOG + textwrap.dedent(first), event={"ldgrunid": "first"})
    second = "memory['gate'].set()\nmemory['thread'].join()\nlog.info('second')"
    frames = logged(lab, second, 2, event={"ldgrunid": "second"})
    assert [(frame["message"], frame["invocation"]["run_id"]) for frame in frames] == [
        ("from the thread", "first"),
        ("second", "second"),
    ]


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("log.info('m' * 5000)", lambda frame: frame["message"] == "m" * 4096),
        (
            "get_logger('n' * 300).info('x')",
            lambda frame: frame["logger"] == "n" * 256,
        ),
        (
            "import logging\nlogging.addLevelName(25, 'S' * 40)\nlog.log(25, 'x')",
            lambda frame: frame["severity"] == "S" * 32,
        ),
    ],
)
def test_texts_are_cut(lab, code, check):
    """RUN-098."""
    [frame] = logged(lab, code)
    assert check(frame)


def attributes_of(lab, expression):
    [frame] = logged(lab, f"log.info('x', extra={{'attributes': {expression}}})")
    return frame["attributes"]


def test_attributes_are_bounded(lab):
    """HLP-018."""
    assert len(attributes_of(lab, "{f'k{n}': n for n in range(40)}")) == 32
    assert len(attributes_of(lab, "{'l': list(range(40))}")["l"]) == 32
    assert [len(key) for key in attributes_of(lab, "{'k' * 300: 1}")] == [256]
    assert attributes_of(lab, "{1: 'x', None: 'y', 'z': 1}") == {"z": 1}
    assert attributes_of(lab, "{'t': (1, 2), 'b': True, 'f': 1.5, 'n': None}") == {
        "t": [1, 2],
        "b": True,
        "f": 1.5,
        "n": None,
    }


def test_attribute_values_and_characters_are_counted_over_the_whole_tree(lab):
    """HLP-018: 64 values, 4096 characters."""

    def count(value):
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(map(count, items))

    found = attributes_of(lab, "{f'k{n}': [1] * 30 for n in range(10)}")
    assert 60 <= count(found) <= 64
    assert list(attributes_of(lab, "{f'k{n}': [1] * 20 for n in range(10)}")) == ["k0", "k1", "k2"]
    texts = attributes_of(lab, "{'a': 'x' * 3000, 'b': 'y' * 3000, 'c': 'z'}")
    assert 4000 <= sum(len(key) + len(str(value)) for key, value in texts.items()) <= 4096 + 40


def test_attribute_nesting_is_cut_by_a_marker(lab):
    """HLP-018: four containers, the attribute object included."""
    found = attributes_of(lab, "{'a': {'b': {'c': {'d': 1}}}}")
    assert found == {"a": {"b": {"c": {"d": 1}}}}
    for deeper in ("{}", "[1]", "{'e': 1}"):
        found = attributes_of(lab, f"{{'a': {{'b': [{{'d': {deeper}}}]}}}}")
        assert isinstance(found["a"]["b"][0]["d"], str)


@pytest.mark.parametrize("value", ["object()", "{1}", "b'x'", "print"])
def test_unsupported_attribute_types_become_a_marker(lab, value):
    """HLP-018."""
    assert isinstance(attributes_of(lab, f"{{'a': {value}}}")["a"], str)


def test_an_integer_that_no_host_accepts_is_not_sent(lab, own_helper):
    """RUN-028 would retire the process; HLP-018 has markers for what is not supported."""
    if not own_helper:
        pytest.skip("not in the contract")
    assert isinstance(attributes_of(lab, "{'a': 2**64}")["a"], str)


@pytest.mark.parametrize(
    "code",
    [
        "log.info('x', extra={'attributes': {'a': float('nan')}})",
        "log.info('x', extra={'attributes': {'a': float('inf')}})",
        "log.info('%d', 'no number')",
        "class Bad:\n    def __str__(self): raise ValueError\nlog.info(Bad())",
        "log.info('\\ud800')",
    ],
)
def test_a_record_that_cannot_be_encoded_is_dropped(lab, code):
    """RUN-104: the task goes on."""
    [frame] = logged(lab, code + "\nlog.info('marker')")
    assert frame["message"] == "marker"


def test_a_long_record_first_loses_its_attributes(hosts, package):
    """RUN-099: the log frame limit is the output limit, at most 16 KiB."""
    source = """
        from ledgence.worker import get_logger
        log = get_logger("x")
        def handle(event):
            log.info("m" * event["data"], extra={"attributes": {"a": "b" * 300}})
            log.info("marker")
    """
    host = hosts(package(source), protocol=2, limit=1000).ready()

    def record(length):
        host.invoke(length)
        first, marker = drained(host, 2)
        assert marker["message"] == "marker"
        return first

    assert record(10)["attributes"] == {"a": "b" * 300}
    first = record(450)
    assert (first["attributes"], set(first["message"])) == ({}, {"m"})
    assert len(first["message"]) in (450, 225)  # one halving more than needed is not ruled out
    first = record(2000)
    assert (first["attributes"], first["message"]) == ({}, "m" * 500)
    assert len(json.dumps(first, separators=(",", ":"))) < 1000


def test_a_record_whose_mandatory_part_does_not_fit_is_dropped(hosts, package):
    """RUN-099, RUN-104."""
    source = """
        from ledgence.worker import get_logger
        def handle(event):
            get_logger("n" * 200).info("x")
            get_logger("short").info("marker")
    """
    host = hosts(package(source), protocol=2, limit=450).ready()
    host.invoke()
    assert [frame["message"] for frame in drained(host, 1)] == ["marker"]


def test_a_16_kib_record_is_the_longest(lab):
    """RUN-099."""
    [frame] = logged(lab, "log.info('\\U0001f600' * 4096, extra={'attributes': {'a': 1}})")
    assert set(frame["message"]) == {"\U0001f600"}
    assert len(json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()) < 16384
    assert len(frame["message"]) == 2048
    assert frame["attributes"] == {}


FLOOD = """
    import os
    from ledgence.worker import get_logger
    log = get_logger("x")
    def handle(event):
        for n in range(event["data"]):
            log.info("%05d" % n + "m" * 3000)
        os.write(2, b"<all logged>")
        return "done"
"""


FLOOD_OF_A_FULL_PIPE = """
    import os, time
    from ledgence.worker import get_logger
    log = get_logger("x")
    def handle(event):
        if event["data"] is None:
            return "done"
        for half in range(2):
            for n in range(500):
                log.info("%05d" % (500 * half + n) + "m" * 3000)
            os.write(2, b"<half logged>")
            while half == 0 and not os.path.exists(event["data"]):
                time.sleep(0.01)
        os.write(2, b"<all logged>")
        return "done"
"""


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_result_overtakes_waiting_records_and_the_rest_is_dropped(hosts, package, tmp_path, protocol):
    """RUN-100, RUN-101: the host reads nothing until the child has logged everything.

    The second half meets a full pipe, however late the writer got its turn in the first.
    """
    host = hosts(package(FLOOD_OF_A_FULL_PIPE), protocol=protocol).ready()
    go = tmp_path / "go"
    host.send(host.invoke_frame(str(go)))
    assert host.blocked("<half logged>")
    go.touch()
    assert host.blocked("<all logged>")
    result = host.frame()
    before = len(host.logs)
    assert result["output"] == "done"
    # 64 KiB of pipe hold about twenty records, one more was being written; none of the 64 waiting ones came before.
    assert before <= 64 * 1024 // 3000 + 2
    while not host.silent(2):
        host.logs.append(host.any_frame())
    numbers = [int(frame["message"][:5]) for frame in host.logs]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == before + 64
    assert host.invoke(None)["output"] == "done"


def test_closing_discards_waiting_records(hosts, package):
    """RUN-103."""
    host = hosts(package(FLOOD), protocol=2).ready()
    host.send(host.invoke_frame(1000))
    host.send({"v": 2, "type": "shutdown"})
    assert host.blocked("<all logged>")
    assert host.frame()["type"] == "result"
    # Records may have been written between the result and `closing`, as the pipe had room.
    assert host.frame() == {"v": 2, "type": "closing"}
    assert host.silent(0.2)
    host.close_stdin()
    assert host.any_frame() is None
    assert host.wait() == 0


def test_one_handler_is_added_however_often_the_logger_is_asked_for(lab):
    """HLP-009, HLP-010."""
    code = """
        import logging
        from ledgence.worker import get_logger
        own = logging.getLogger("lab.own")
        own.propagate = False
        own.setLevel(logging.ERROR)
        own.addHandler(logging.NullHandler())
        before = list(logging.getLogger().handlers), logging.getLogger().level
        same = [get_logger("lab.own") is own for _ in range(3)]
        fresh = get_logger("lab.fresh")
        deep = logging.getLogger("lab.zero")
        deep.setLevel(logging.DEBUG)
        get_logger("lab.zero")
        after = list(logging.getLogger().handlers), logging.getLogger().level
        own = [len(own.handlers), own.level, own.propagate]
        return [same, own, fresh.level, fresh.propagate, deep.level, before == after]
    """
    assert lab.output(code) == [[True] * 3, [2, 40, False], 20, True, 10, True]


def test_one_record_gives_one_frame(lab):
    """HLP-011: also when it propagates or is handled again; two equal calls are two records."""
    code = """
import logging
child = get_logger('lab.logs.child')
child.info('once')
record = log.makeRecord('lab.logs', 20, 'f', 1, 'again', (), None)
log.handle(record)
log.handle(record)
log.info('twice')
log.info('twice')
log.info('marker')
"""
    messages = [frame["message"] for frame in logged(lab, code, 5)]
    assert messages == ["once", "again", "twice", "twice", "marker"]


def test_a_disabled_level_gives_no_frame(lab):
    """HLP-010."""
    assert [frame["message"] for frame in logged(lab, "log.debug('x')\nlog.info('marker')")] == ["marker"]


def test_logging_in_local_functions_and_threads_carries_the_identity(lab):
    """HLP-006, HLP-013."""
    code = """
def step():
    log.info("step")
    return 1
await ctx.local("k", step)
await asyncio.to_thread(log.info, "thread")
return ctx.complete(None)
"""
    lab.completed(LOG + code)
    assert {frame["message"]: frame["invocation"]["activation_id"] for frame in drained(lab.host, 2)} == {
        "step": "act",
        "thread": "act",
    }
