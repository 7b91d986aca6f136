"""Health: chapter 03, Health and RCV-031."""

import pytest

from protocol3.coordinator.health import Health


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(clock)


def reasons(health: Health) -> list[str]:
    status, document = health.ready()
    assert isinstance(document, dict)
    assert document["status"] == ("ok" if status == 200 else "not_ready")
    assert bool(document["reasons"]) == (status == 503)
    return document["reasons"]


def test_not_ready_before_startup_and_a_first_pass(health, clock):
    """HTTP-091, HTTP-092"""
    assert health.ready() == (
        503,
        {
            "status": "not_ready",
            "reasons": ["startup_incomplete", "recovery_pending"],
            "recovery_last_success_age_ms": None,
        },
    )
    health.startup_done()
    assert reasons(health) == ["recovery_pending"]
    health.recovery.succeeded(999.5)
    assert health.ready() == (200, {"status": "ok", "reasons": [], "recovery_last_success_age_ms": 500})


@pytest.mark.parametrize(("age_s", "expected"), [(40.0, []), (40.001, ["recovery_stale"])])
def test_recovery_goes_stale_after_forty_seconds(health, clock, age_s, expected):
    """HTTP-092"""
    health.startup_done()
    health.recovery.succeeded(clock.now)
    clock.now += age_s
    assert reasons(health) == expected
    health.recovery.succeeded(clock.now)
    assert reasons(health) == []


def test_unavailable_recovery_ends_with_the_next_success(health, clock):
    """HTTP-092"""
    health.startup_done()
    health.recovery.succeeded(clock.now)
    health.recovery.unavailable()
    assert reasons(health) == ["recovery_unavailable"]
    health.recovery.succeeded(clock.now)
    assert reasons(health) == []


def test_shutdown_is_unready_at_once_and_for_good(health, clock):
    """HTTP-092"""
    health.startup_done()
    health.recovery.succeeded(clock.now)
    health.shutting_down()
    health.recovery.succeeded(clock.now)
    assert reasons(health) == ["shutting_down"]
    assert health.live() == (200, {"status": "ok", "reasons": []})


def test_workflow_progress_counts_where_it_is_watched(health, clock):
    """RCV-031"""
    health.startup_done()
    health.recovery.succeeded(clock.now)
    workflows = health.watch("workflow_recovery")
    assert reasons(health) == ["workflow_recovery_pending"]
    workflows.succeeded(clock.now)
    assert reasons(health) == []
    clock.now += 41
    health.recovery.succeeded(clock.now)
    assert reasons(health) == ["workflow_recovery_stale"]
    workflows.unavailable()
    assert reasons(health) == ["workflow_recovery_unavailable"]
    _, document = health.ready()
    assert document["recovery_last_success_age_ms"] == 0


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/health/live?x", "/health/live?"])
async def test_health_over_http(edge, wire, path):
    """HTTP-023, HTTP-090, HTTP-093"""
    edge.health.startup_done()
    edge.health.recovery.succeeded(0.0)
    answer = await wire.get(path)
    assert answer.json["status"] in ("ok", "not_ready")
    assert answer.status == (200 if answer.json["status"] == "ok" else 503)
    assert answer.one("Content-Type") == "application/json"
    assert answer.one("Cache-Control") == "no-store"
    assert answer.all("Request-Id") == []
    await wire.send(wire.head("HEAD", path))
    mirrored = await wire.answer(head_only=True)
    assert (mirrored.status, mirrored.one("Content-Length")) == (answer.status, answer.one("Content-Length"))
    assert await wire.still_serves()


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS", "DELETE"])
async def test_other_methods_on_health_are_405_without_json(wire, method):
    """HTTP-023"""
    answer = await wire.ask(wire.head(method, "/health/ready"))
    assert (answer.status, answer.body, answer.one("Allow")) == (405, b"", "GET, HEAD")
    assert answer.all("Content-Type") == []
    assert await wire.still_serves()


async def test_an_unready_service_says_so_with_503(edge, wire):
    """HTTP-091"""
    answer = await wire.get("/health/ready")
    assert answer.status == 503
    assert answer.json == {
        "status": "not_ready",
        "reasons": ["startup_incomplete", "recovery_pending"],
        "recovery_last_success_age_ms": None,
    }
