"""The metrics of one process: exchanges as they are answered, everything else as it stands when it is asked for.

Label values come from closed lists of ours: routes, methods, statuses, kinds. None is ever a client's text.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from protocol3 import __version__
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.observation import Exchange
from protocol3.coordinator.services import Services
from protocol3.store.database import pool_state
from protocol3.store.gauges import Gauge

#: Seconds; the upper ones are for long polls.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0)
#: In place of a client's text.
UNKNOWN: Final = "unknown"


class Metrics:
    """`observe` counts an exchange; `render` is everything in Prometheus' text format."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's own signature; halves the text
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "protocol3_requests",
            "Answered exchanges.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "protocol3_request_duration_seconds",
            "From the head of a request to its reply, long polls with their wait.",
            ("route",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._labelled = cache(self._label)

    def observe(self, exchange: Exchange) -> None:
        """Count an answered exchange."""
        requests, durations = self._labelled(exchange.route or UNKNOWN, exchange.method or UNKNOWN, exchange.status)
        requests.inc()
        durations.observe(exchange.seconds)

    def _label(self, route: str, method: str, status: int) -> tuple[Counter, Histogram]:
        """What an exchange like this counts in; closed lists of labels make few of them."""
        return self._requests.labels(route, method, status), self._durations.labels(route)

    def render(self, process: Iterable[Metric], gauges: tuple[Gauge, ...] | None) -> bytes:
        """The text of one scrape; `gauges` None when the database did not answer. Any thread may call it."""
        return generate_latest(_Scrape([*process, *_database(gauges)], self._registry))


class ProcessState:
    """Reads the figures that the parts of a process keep anyway."""

    def __init__(self, services: Services, health: Health, exchanges: Exchanges) -> None:
        self._services = services
        self._health = health
        self._exchanges = exchanges

    def read(self) -> list[Metric]:
        """As it stands now; to be called on the event loop."""
        return [*self._all()]

    def _all(self) -> Iterator[Metric]:
        services = self._services
        yield InfoMetricFamily("protocol3", "The running version.", {"version": __version__})
        yield _gauge(
            "requests_in_progress", "Admitted exchanges under way, long polls included.", self._exchanges.active
        )
        yield _gauge("polls_waiting", "Long polls that wait for work.", services.dispatchers.waiting)
        yield _gauge("obligations_held", "Obligations that this process handles now.", len(services.obligations.held))
        yield from self._pool()
        yield from self._passes()
        yield _counter("wakes", "Wakes after commits, by what they wake.", "kind", services.wakes.published)
        hints = {"sent": services.hints.sent, "heard": services.hints.heard}
        yield _counter("hints", "Queues told to other processes, or by them.", "direction", hints)

    def _pool(self) -> Iterator[Metric]:
        pool = pool_state(self._services.pool)
        yield _gauge("pool_connections_max", "Most database connections that the pool opens.", pool.most)
        yield _gauge("pool_connections", "Open database connections of the pool.", pool.open)
        yield _gauge("pool_connections_in_use", "Those that are in use.", pool.in_use)
        yield _gauge("pool_waiting", "Callers that wait for a connection.", pool.waiting)

    def _passes(self) -> Iterator[Metric]:
        passes = CounterMetricFamily(
            "protocol3_background_passes", "Passes of the background loops.", labels=("loop", "outcome")
        )
        last = GaugeMetricFamily(
            "protocol3_background_last_success_timestamp_seconds", "When a pass last went through.", labels=("loop",)
        )
        now, monotonic = time.time(), time.monotonic()
        for watched in self._health.passes:
            passes.add_metric((watched.name, "succeeded"), watched.successes)
            passes.add_metric((watched.name, "failed"), watched.failures)
            if watched.last_success is not None:
                last.add_metric((watched.name,), now - (monotonic - watched.last_success))
        yield passes
        yield last


def _database(gauges: tuple[Gauge, ...] | None) -> Iterator[Metric]:
    yield _gauge("database_up", "1 if the database answered this scrape in time, else 0.", 0 if gauges is None else 1)
    if gauges is None:
        return
    owed = GaugeMetricFamily("protocol3_obligations", "Obligations that are owed.", labels=("kind",))
    oldest = GaugeMetricFamily(
        "protocol3_obligation_oldest_age_seconds", "Age of the oldest owed obligation.", labels=("kind",)
    )
    waits = GaugeMetricFamily("protocol3_waits", "Open waits of workflows.", labels=("kind",))
    tasks = GaugeMetricFamily("protocol3_tasks", "Tasks that are not over.", labels=("state",))
    for gauge in gauges:
        match gauge.of:
            case "obligations":
                owed.add_metric((str(gauge.kind),), gauge.count)
                oldest.add_metric((str(gauge.kind),), (gauge.oldest_ms or 0) / 1000)
            case "waits":
                waits.add_metric((str(gauge.kind),), gauge.count)
            case "leases":
                tasks.add_metric(("active",), gauge.count)
                yield _gauge("leases", "Leases of active attempts, an expired one until it is recovered.", gauge.count)
            case "queued":
                tasks.add_metric(("queued",), gauge.count)
    yield from (owed, oldest, waits, tasks)


class _Scrape(Collector):
    """What was read for one scrape, then what is counted all the time."""

    def __init__(self, read: Iterable[Metric], counted: CollectorRegistry) -> None:
        self._read = read
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        yield from self._read
        yield from self._counted.collect()


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"protocol3_{name}", about, value=value)


def _counter(name: str, about: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(f"protocol3_{name}", about, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family
