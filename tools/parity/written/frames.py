"""Lines that a host may send: limits, encodings, and all kinds of wrong ones (1.2, 1.3, 1.11)."""

import json
from collections.abc import Iterator
from typing import Any

from parity.case import FRAME_LIMIT, Case, Step, activation, compact, invoke, program

ECHO = "import asyncio\ndef handle(event):\n    return event['data']\n"
COUNT = "n = 0\ndef handle(event):\n    global n\n    n += 1\n    return n\n"


def _text(frame: Any) -> str:
    return compact(frame).decode()


LINES: dict[str, str] = {
    "empty": "\n",
    "blank": "   \n",
    "text": "hello\n",
    "null": "null\n",
    "number": "3\n",
    "array": "[]\n",
    "object": "{}\n",
    "no-type": '{"v":3}\n',
    "unknown-type": '{"v":3,"type":"hello"}\n',
    "type-null": '{"v":3,"type":null}\n',
    "type-list": '{"v":3,"type":[]}\n',
    "shutdown": '{"v":3,"type":"shutdown"}\n',
    "shutdown-extra": '{"v":3,"type":"shutdown","x":[1]}\n',
    "shutdown-v-2": '{"v":2,"type":"shutdown"}\n',
    "shutdown-v-text": '{"v":"3","type":"shutdown"}\n',
    "shutdown-v-float": '{"v":3.0,"type":"shutdown"}\n',
    "shutdown-no-v": '{"type":"shutdown"}\n',
    "shutdown-duplicate": '{"v":2,"v":3,"type":"invoke","type":"shutdown"}\n',
    "shutdown-nan": '{"v":3,"type":"shutdown","x":NaN}\n',
    "shutdown-infinity": '{"v":3,"type":"shutdown","x":-Infinity}\n',
    "shutdown-spaced": ' { "v" : 3 , "type" : "shutdown" } \r\n',
    "shutdown-cr": '{"v":3,"type":"shutdown"}\r',
    "shutdown-bom": '\ufeff{"v":3,"type":"shutdown"}\n',
    "shutdown-trailing": '{"v":3,"type":"shutdown"}x\n',
    "shutdown-nul": '{"v":3,"type":"shutdown"}\x00\n',
    "shutdown-utf-16": "\udcff\udcfe{\x00}\x00\n",
    "bad-utf-8": '{"v":3,"type":"shutdown","x":"\udcff"}\n',
    "surrogate-escape": '{"v":3,"type":"shutdown","x":"\\ud800"}\n',
    "control-in-text": '{"v":3,"type":"shutdown","x":"\t"}\n',
    "deep": '{"v":3,"type":"shutdown","x":' + "[" * 500 + "]" * 500 + "}\n",
    "too-deep": '{"v":3,"type":"shutdown","x":' + "[" * 100000 + "]" * 100000 + "}\n",
    "big-number": '{"v":3,"type":"shutdown","x":1e999}\n',
    "long-integer": '{"v":3,"type":"shutdown","x":' + "9" * 4000 + "}\n",
    "longer-integer": '{"v":3,"type":"shutdown","x":' + "9" * 5000 + "}\n",
    "leading-zero": '{"v":03,"type":"shutdown"}\n',
    "single-quotes": "{'v':3,'type':'shutdown'}\n",
    "comment": '{"v":3,"type":"shutdown"} // x\n',
    "reply": '{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":1}\n',
}

INVOCATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "extra": {"x": {"y": 1}},
    "v-2": {"v": 2},
    "v-true": {"v": True},
    "v-float": {"v": 3.0},
    "no-event-id": {"event_id": ...},
    "empty-event-id": {"event_id": "", "event": {"id": ""}},
    "null-event-id": {"event_id": None, "event": {"id": None}},
    "number-event-id": {"event_id": 1, "event": {"id": 1}},
    "other-event-id": {"event_id": "x"},
    "no-attempt-id": {"attempt_id": ...},
    "empty-attempt-id": {"attempt_id": "", "event": {"ldgattemptid": ""}},
    "other-attempt-id": {"event": {"ldgattemptid": "x"}},
    "missing-attempt-id": {"event": {"ldgattemptid": ...}},
    "no-context": {"processing_context": ...},
    "context-text": {"processing_context": "x"},
    "context-empty": {"processing_context": {}},
    "context-list": {"processing_context": []},
    "context-false": {"processing_context": False},
    "unicode-ids": {"event_id": "ä𝄞", "event": {"id": "ä𝄞"}},
    "control-ids": {"event_id": "a\nb", "event": {"id": "a\nb"}},
    "surrogate-ids": {"event_id": "\ud800", "event": {"id": "\ud800"}},
    "long-ids": {"event_id": "x" * 5000, "event": {"id": "x" * 5000}},
}

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
CARRIERS: dict[str, Any] = {
    "good": {"traceparent": PARENT},
    "state-null": {"traceparent": PARENT, "tracestate": None},
    "state": {"traceparent": PARENT, "tracestate": "a=1,b=2"},
    "state-empty": {"traceparent": PARENT, "tracestate": ""},
    "state-empty-members": {"traceparent": PARENT, "tracestate": " , ,a=1, "},
    "state-duplicate": {"traceparent": PARENT, "tracestate": "a=1,a=2"},
    "state-upper": {"traceparent": PARENT, "tracestate": "A=1"},
    "state-value-space": {"traceparent": PARENT, "tracestate": "a= 1"},
    "state-trailing-space": {"traceparent": PARENT, "tracestate": "a=1 "},
    "state-tab": {"traceparent": PARENT, "tracestate": "a=1,\tb=2"},
    "state-no-value": {"traceparent": PARENT, "tracestate": "a="},
    "state-equal": {"traceparent": PARENT, "tracestate": "a=b=c"},
    "state-32": {"traceparent": PARENT, "tracestate": ",".join(f"k{n}=1" for n in range(32))},
    "state-33": {"traceparent": PARENT, "tracestate": ",".join(f"k{n}=1" for n in range(33))},
    "state-32-empty": {"traceparent": PARENT, "tracestate": "," * 32},
    "state-512": {"traceparent": PARENT, "tracestate": f"a={'x' * 253},b={'y' * 254}"},
    "state-513": {"traceparent": PARENT, "tracestate": f"a={'x' * 254},b={'y' * 254}"},
    "state-value-256": {"traceparent": PARENT, "tracestate": f"a={'x' * 256}"},
    "state-value-257": {"traceparent": PARENT, "tracestate": f"a={'x' * 257}"},
    "state-unicode": {"traceparent": PARENT, "tracestate": "a=ä"},
    "state-tenant": {"traceparent": PARENT, "tracestate": "1a@b=1"},
    "state-tenant-digit": {"traceparent": PARENT, "tracestate": "a@1=1"},
    "state-key-digit": {"traceparent": PARENT, "tracestate": "1a=1"},
    "state-number": {"traceparent": PARENT, "tracestate": 1},
    "state-alone": {"tracestate": "a=1"},
    "extra": {"traceparent": PARENT, "x": 1},
    "upper": {"traceparent": PARENT.upper()},
    "zero-trace": {"traceparent": f"00-{'0' * 32}-{'b' * 16}-01"},
    "zero-span": {"traceparent": f"00-{'a' * 32}-{'0' * 16}-01"},
    "version": {"traceparent": "01" + PARENT[2:]},
    "newline": {"traceparent": PARENT + "\n"},
    "longer": {"traceparent": PARENT + "-00"},
    "null": {"traceparent": None},
}

VALUES = {
    "minus-zero": "-0",
    "minus-zero-float": "-0.0",
    "integers": "[9223372036854775808,-9223372036854775808,18446744073709551615]",
    "beyond": "[18446744073709551616]",
    "exponents": "[1e0,1E5,1e-7,1e+2,1.0e22]",
    "overflow": "[1e400]",
    "underflow": "[1e-400,-1e-400]",
    "long-fraction": "[0.1000000000000000055511151231257827]",
    "duplicate": '{"a":1,"a":2}',
    "escapes": '"\\u00e4\\ud834\\udd1e\\/\\u0000"',
    "surrogate": '"\\ud800"',
    "empty-key": '{"":1}',
    "order": '{"b":1,"a":2}',
    "spaces": '{ "a" : [ 1 , 2 ] }',
}


def cases() -> Iterator[Case]:
    for name, line in LINES.items():
        yield program(f"line/{name}", COUNT, Step(line=line, close=not line.endswith("\n")))
    yield program("line/cut", COUNT, Step(line='{"v":3,"type":"shutdown"', close=True))
    yield program("line/cut-after-object", COUNT, Step(line='{"v":3,"type":"shutdown"}', close=True))
    for protocol in (1, 2, 3):
        name = f"line/v{protocol}"
        yield program(f"{name}/end", COUNT, protocol=protocol)
        shutdown = Step(line=f'{{"v":{protocol},"type":"shutdown"}}\n')
        yield program(f"{name}/shutdown", COUNT, shutdown, protocol=protocol)
        two = [Step(line=invoke(1, protocol=protocol))] * 2
        yield program(f"{name}/two-and-shutdown", COUNT, *two, shutdown, protocol=protocol)
        after = Step(line=_text(invoke(1, protocol=protocol)), close=True)
        yield program(f"{name}/after-shutdown", COUNT, shutdown, after, protocol=protocol)
        for title, changes in INVOCATIONS.items():
            if protocol == 3 or "ids" not in title:
                line = json.dumps(invoke(1, protocol=protocol, **changes)) + "\n"  # escaped, lone surrogates as well
                yield program(f"invoke/v{protocol}/{title}", COUNT, Step(line=line), protocol=protocol)
        for event in ("null", "[]", '"x"', "1"):
            line = _text(invoke(1, protocol=protocol, event={})).replace('"event":{', f'"event":{event},"other":{{')
            yield program(f"invoke/v{protocol}/event-{event}", COUNT, Step(line=line), protocol=protocol)
    yield program("invoke/no-event", COUNT, Step(line=_text(invoke(1)).replace('"event":', '"other":')))
    for name, carrier in CARRIERS.items():
        show = "import dataclasses\nfrom ledgence.worker import current_invocation\ndef handle(event):\n    return dataclasses.asdict(current_invocation().processing_context)\n"
        yield program(f"carrier/{name}", show, Step(line=invoke(1, processing_context=carrier)))
    for name, text in VALUES.items():
        line = _text(invoke("PLACE")).replace('"PLACE"', text)
        yield program(f"token/{name}", ECHO, Step(line=line))
        line = _text(invoke("x", payload=activation(state="PLACE"))).replace('"PLACE"', text)
        state = "from ledgence.worker.workflow import workflow_context\ndef handle(event):\n    ctx = workflow_context()\n    return ctx.complete([ctx.state, repr(ctx.state)])\n"
        yield program(f"token/state/{name}", state, Step(line=line))
    yield from _limits()


def _limits() -> Iterator[Case]:
    """At the frame limits and one byte beyond them (RUN-021, RUN-023, RUN-050, RUN-055, RUN-057, RUN-093)."""
    length = len(compact(invoke("")))
    for more in (-1, 0, 1):
        arguments: dict[str, str | None] = {"--max-input-bytes": str(length + 100)}
        yield program(f"limit/input/{more}", ECHO, Step(line=invoke("x" * (100 + more))), arguments=arguments)
    frame = len('{"v":3,"type":"result","event_id":"ev","attempt_id":"at","status":"success","output":""}\n')
    for more in (-1, 0, 1, 2):
        arguments = {"--max-output-bytes": str(frame + 300)}
        source = f"def handle(event):\n    return 'x' * {300 + more}\n"
        yield program(f"limit/output/{more}", source, Step(line=invoke(1)), Step(line=invoke(1)), arguments=arguments)
        source = f"from ledgence.worker.workflow import workflow_context\ndef handle(event):\n    return workflow_context().complete('x' * {200 + more})\n"
        frame_of_decision = len('{"v":1,"activation_id":"act","revision":0,"kind":"complete","output":""}') + frame - 2
        arguments = {"--max-output-bytes": str(frame_of_decision + 200)}
        yield program(f"limit/decision/{more}", source, Step(line=invoke(1, payload=activation())), arguments=arguments)
    for size in (256, 300, 400):
        for text in ("x", "ä", "𝄞", '"', "\\x00"):
            arguments = {"--max-output-bytes": str(size)}
            source = f"def handle(event):\n    raise ValueError('said: ' + '{text}' * 600)\n"
            name = {'"': "quote", "\\x00": "nul"}.get(text, text)
            yield program(f"limit/message/{size}-{name}", source, Step(line=invoke(1)), arguments=arguments)
    empty = len(
        '{"v":3,"type":"result","event_id":"ev","attempt_id":"at","status":"error","error":{"kind":"invalid_output","message":""}}\n'
    )
    for more in (-1, 0, 1):
        identity = "e" * (300 - empty + 2 - more)
        step = Step(line=invoke(1, event_id=identity, event={"id": identity}))
        yield program(f"limit/identity/{more}", COUNT, step, arguments={"--max-output-bytes": "300"})
    for limit in (256, 400, 550, 700):
        arguments = {"--max-output-bytes": str(limit)}
        yield program(f"limit/observations/{limit}", COUNT, Step(line=invoke(1, observe=True)), arguments=arguments)
    for size in (FRAME_LIMIT - frame, FRAME_LIMIT - frame + 1, 5_000_000):
        yield program(f"limit/giant/{size}", f"def handle(event):\n    return 'x' * {size}\n", Step(line=invoke(1)))
    yield program(
        "limit/giant/input",
        "def handle(event):\n    return len(event['data'])\n",
        Step(line=invoke("x" * (FRAME_LIMIT - length))),
    )
    yield program("limit/giant/input-above", COUNT, Step(line=invoke("x" * (FRAME_LIMIT - length + 1))))
    yield program("limit/giant/wide", "def handle(event):\n    return [[]] * 500000\n", Step(line=invoke(1)))
    request = (
        "from ledgence.worker.workflow import workflow_context\nasync def handle(event):\n    ctx = workflow_context()\n"
        "    def step():\n        return 'x' * 3000\n    try:\n        await ctx.local('k', step)\n    except Exception as e:\n"
        "        print('<<' + type(e).__name__ + '>>', flush=True)\n    return ctx.complete(1)\n"
    )
    yield program(
        "limit/request", request, Step(line=invoke(1, payload=activation())), arguments={"--max-output-bytes": "2000"}
    )
    reply = (
        '{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":{"committed":true}'
        + " " * 2000
        + "}\n"
    )
    long_reply = Step(line=invoke(1, payload=activation()), answers=({"raw": reply},))
    yield program("limit/reply", request, long_reply, arguments={"--max-input-bytes": "1500"})
    yield program("limit/reply-fits", request, long_reply, arguments={"--max-input-bytes": "2500"})
