"""Metrics read from PostgreSQL and Redis at each scrape, where counters would only be estimates.

Unfinished audits and mails are read each time. Totals scan whole tables, so they are read at most
twice a minute.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import product
from threading import Lock
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import RedisError
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.jobs.queues import AuditQueues
from service.models.audits.audits import PROCESSING, QUEUED, SOURCES, STATUSES
from service.models.base import utc_now
from service.models.billing.payments import PROVIDERS
from service.models.mail.outbox import MAIL_STATUSES
from service.models.notices.deliveries import DELIVERY_STATUSES
from service.models.operations import totals

_FRESH_SECONDS: Final = 30.0

_log = get_logger(__name__)


class ServerMetrics(Collector):
    """Collect one scrape at a time; if a server is down, only `tallystick_up` reports it."""

    def __init__(self, engine: Engine, queues: AuditQueues) -> None:
        self._engine = engine
        self._queues = queues
        self._lock = Lock()
        self._totals: list[Metric] = []
        self._totals_at = -_FRESH_SECONDS

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering doesn't query the servers."""
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            from_database = self._ask("database", self._read_database)
            from_redis = self._ask("redis", self._read_redis)
        up = GaugeMetricFamily(
            "tallystick_up", "Whether the server answered this scrape.", labels=["component"]
        )
        up.add_metric(["database"], float(from_database is not None))
        up.add_metric(["redis"], float(from_redis is not None))
        yield from (up, *(from_database or ()), *(from_redis or ()))

    def _ask(self, component: str, read: Callable[[], list[Metric]]) -> list[Metric] | None:
        try:
            return read()
        except (SQLAlchemyError, RedisError, OSError) as error:
            _log.warning(f"{component}_unavailable", error_type=type(error).__name__)
            return None

    def _read_database(self) -> list[Metric]:
        with self._engine.connect() as connection:
            waiting = [*_read_queue(connection), *_read_mails(connection)]
            if time.monotonic() - self._totals_at >= _FRESH_SECONDS:
                self._totals = _read_totals(connection)
                self._totals_at = time.monotonic()
        return [*waiting, *self._totals]

    def _read_redis(self) -> list[Metric]:
        depths = self._queues.depths()
        return [_gauge("tallystick_wake_ups", "Wake-ups waiting in Redis.", "queue", depths)]


def _read_queue(connection: Connection) -> list[Metric]:
    known = {(row.kind, row.status): row for row in totals.list_waiting_audits(connection)}
    keys = product(SOURCES, (QUEUED, PROCESSING))
    return _waiting("tallystick_audits", "source", {key: known.get(key) for key in keys})


def _read_mails(connection: Connection) -> list[Metric]:
    known = {(row.kind, row.status): row for row in totals.list_waiting_mails(connection)}
    return _waiting("tallystick_mails", "kind", known)


def _waiting(
    name: str, label: str, rows: Mapping[tuple[str, str], totals.Waiting | None]
) -> list[Metric]:
    now = utc_now()
    labels = [label, "status"]
    depth = GaugeMetricFamily(f"{name}_waiting", "Number of unfinished items.", labels=labels)
    age = GaugeMetricFamily(f"{name}_oldest_seconds", "Age of the oldest item.", labels=labels)
    for key, row in rows.items():
        depth.add_metric(key, row.number if row else 0)
        age.add_metric(key, _seconds_since(row.oldest_at, now) if row else 0)
    return [depth, age]


def _read_totals(connection: Connection) -> list[Metric]:
    credits = totals.count_credits(connection)._asdict()
    audits = dict.fromkeys(STATUSES, 0) | totals.count_audits(connection)
    mails = dict.fromkeys(MAIL_STATUSES, 0) | totals.count_mails(connection)
    notices = dict.fromkeys(DELIVERY_STATUSES, 0) | totals.count_notices(connection)
    events = dict.fromkeys(PROVIDERS, 0) | totals.count_events(connection)
    return [
        _gauge("tallystick_audits", "Audits by status.", "status", audits),
        _gauge("tallystick_mails", "Mails by status, until they are deleted.", "status", mails),
        _gauge(
            "tallystick_notices", "Notices by status, until they are deleted.", "status", notices
        ),
        _gauge("tallystick_credits", "Credits by state.", "state", credits),
        _gauge(
            "tallystick_payment_events", "Stored events by payment provider.", "provider", events
        ),
    ]


def _gauge(name: str, words: str, label: str, values: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, words, labels=[label])
    for value, number in values.items():
        gauge.add_metric([value], number)
    return gauge


def _seconds_since(moment: datetime, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds())
