"""The bridge to OpenTelemetry, with the real API vendored into the package (chapter 23, `ledgence.worker.otel`)."""

import importlib.util
import shutil
from pathlib import Path

import pytest

VENDORED = ["opentelemetry", "typing_extensions.py", "importlib_metadata", "zipp"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
CARRIER = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1"}
PROGRAM = """
    import sys
    from ledgence.worker import get_logger, otel
    log = get_logger("x")
    IMPORTED_BEFORE = "opentelemetry" in sys.modules
    otel.enable_context()
    otel.enable_context()
    from opentelemetry import baggage, context, trace

    def show():
        span = trace.get_current_span()
        found = span.get_span_context()
        return [f"{found.trace_id:032x}", f"{found.span_id:016x}", found.is_remote, dict(found.trace_state),
                baggage.get_baggage("left"), type(span).__name__]

    def handle(event):
        log.info("in context")
        seen = show()
        context.attach(baggage.set_baggage("left", "behind"))
        own = trace.SpanContext(trace_id=5, span_id=6, is_remote=False)
        context.attach(trace.set_span_in_context(trace.NonRecordingSpan(own)))
        log.info("in own span")
        if event["data"] == "fail":
            raise ValueError("of the handler")
        return [IMPORTED_BEFORE, seen, type(trace.get_tracer_provider()).__name__]
"""


@pytest.fixture
def vendored(hosts, package):
    """A package with the API inside, as an application would ship it."""
    spec = importlib.util.find_spec("opentelemetry")
    if spec is None:
        pytest.skip("opentelemetry-api is not installed here")
    site = Path(next(iter(spec.submodule_search_locations))).parent

    def start(source=PROGRAM, **settings):
        root = package(source)
        for path in [*map(site.joinpath, VENDORED), *site.glob("opentelemetry_api-*.dist-info")]:
            if path.is_dir():
                shutil.copytree(path, root / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.exists():
                shutil.copy(path, root / path.name)
        return hosts(root, **settings).ready()

    return start


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_each_invocation_runs_in_the_extracted_or_an_empty_context(vendored, protocol):
    """HLP-019 … HLP-022, RUN-109: nothing of an earlier invocation is left, whatever it attached or raised."""
    host = vendored(protocol=protocol)
    empty = ["0" * 32, "0" * 16, False, {}, None, "NonRecordingSpan"]
    extracted = [TRACE, SPAN, True, {"a": "1"}, None, "NonRecordingSpan"]
    carrier = {} if protocol == 1 else {"processing_context": CARRIER}
    for _ in range(2):
        assert host.invoke(**carrier)["output"] == [False, extracted if carrier else empty, "ProxyTracerProvider"]
        assert host.invoke("fail", **carrier)["error"]["message"] == "of the handler"
        assert host.invoke(event={"traceparent": CARRIER["traceparent"]})["output"][1] == empty


def test_an_activation_runs_in_the_extracted_context(vendored, activation):
    """HLP-021."""
    source = """
        from ledgence.worker import otel
        from ledgence.worker.workflow import workflow_context
        otel.enable_context()
        from opentelemetry import trace
        def current():
            return trace.get_current_span().get_span_context().span_id
        async def handle(event):
            ctx = workflow_context()
            return ctx.complete([current(), await ctx.local("k", current)])
    """
    host = vendored(source)
    result = host.invoke(payload=activation(), processing_context=CARRIER)
    assert result["output"]["output"] == [int(SPAN, 16)] * 2
    assert host.invoke(payload=activation())["output"]["output"] == [0, 0]


def test_log_records_carry_the_active_span(vendored):
    """HLP-015: with the bridge on, the processing context alone counts for nothing."""
    host = vendored(protocol=2)
    host.invoke(processing_context=CARRIER)
    host.invoke()
    while len(host.logs) < 4:
        host.logs.append(host.any_frame())
    ids = [(frame.get("trace_id"), frame.get("span_id")) for frame in host.logs]
    own = ("0" * 31 + "5", "0" * 15 + "6")
    assert ids == [(TRACE, SPAN), own, (None, None), own]


def test_without_the_api_the_bridge_stays_off(hosts, package):
    """HLP-020."""
    source = """
        from ledgence.worker import otel
        def handle(event):
            try:
                otel.enable_context()
            except ImportError as error:
                return type(error).__name__
    """
    host = hosts(package(source), protocol=2).ready()
    for _ in range(2):
        assert host.invoke(processing_context=CARRIER)["output"] == "ModuleNotFoundError"
