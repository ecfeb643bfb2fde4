"""Metrics read from PostgreSQL and Redis at each scrape, where counters would only be estimates.

Unfinished audits and mails are read each time. Totals scan whole tables, so they are read at most
twice a minute.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from threading import Lock
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from redis import RedisError
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.blobs import local_folder
from service.core.logs import get_logger
from service.jobs.queues import AuditQueues
from service.models.audits.audits import PROCESSING, QUEUED, SOURCES, STATUSES
from service.models.base import utc_now
from service.models.billing.payments import PROVIDERS
from service.models.connections.connections import count_by_state
from service.models.mail.outbox import Mail
from service.models.notices.deliveries import NoticeDelivery
from service.models.operations import totals
from service.models.operations.totals import read_database_load, read_tenant_load
from service.operations.price_book import find_fetched_at

_FRESH_SECONDS: Final = 30.0
_OLDEST_WORDS: Final = "Age of the oldest transaction that this role may see."
_TENANT_WORDS: Final = "Records within an hour, of the accounts that sent most."

_log = get_logger(__name__)


class ServerMetrics(Collector):
    """Collect one scrape at a time; if a server is down, only `tallystick_up` reports it."""

    def __init__(self, config: Config, engine: Engine, queues: AuditQueues) -> None:
        self._config = config
        self._engine = engine
        self._queues = queues
        self._lock = Lock()
        self._totals: list[Metric] = []
        self._totals_at = -_FRESH_SECONDS

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
        folder = local_folder(self._config.storage_url)
        if folder and folder.is_dir():
            disk = shutil.disk_usage(folder)
            sizes = {"free": disk.free, "total": disk.total}
            yield _gauge("tallystick_storage_bytes", "Disk of the blobs.", "kind", sizes)

    def _ask(self, component: str, read: Callable[[], list[Metric]]) -> list[Metric] | None:
        try:
            return read()
        except (SQLAlchemyError, RedisError, OSError) as error:
            _log.warning(f"{component}_unavailable", error_type=type(error).__name__)
            return None

    def _read_database(self) -> list[Metric]:
        with self._engine.connect() as connection:
            audits, mails, notices = (
                {(row.kind, row.status): row for row in rows}
                for rows in (
                    totals.list_waiting_audits(connection),
                    totals.list_waiting_mails(connection),
                    totals.list_waiting_notices(connection),
                )
            )
            every = {key: audits.get(key) for key in product(SOURCES, (QUEUED, PROCESSING))}
            calls, oldest_at = totals.find_waiting_spans(connection)
            age = _seconds_since(oldest_at, utc_now()) if oldest_at else 0.0
            waiting = [
                *_waiting("tallystick_audits", "source", every),
                *_waiting("tallystick_mails", "kind", mails),
                *_waiting("tallystick_notices", "event", notices),
                _number(
                    "tallystick_spans_waiting", "Calls in spans that no import has yet.", calls
                ),
                _number("tallystick_spans_oldest_seconds", "Age of the oldest such call.", age),
            ]
            if self._config.prices_update == "on":
                fetched_at = find_fetched_at(connection)
                age = math.inf if fetched_at is None else _seconds_since(fetched_at, utc_now())
                words = "Time since the published prices were fetched; infinite if they never were."
                waiting.append(_number("tallystick_price_book_age_seconds", words, age))
            if self._config.connections == "on":
                gauge = GaugeMetricFamily(
                    "tallystick_connections",
                    "Connections to model providers, by why they fail; no error for those that"
                    " work.",
                    labels=["provider", "error"],
                )
                for labels, number in count_by_state(connection).items():
                    gauge.add_metric(labels, number)
                waiting.append(gauge)
            if time.monotonic() - self._totals_at >= _FRESH_SECONDS:
                self._totals = _read_totals(connection)
                self._totals_at = time.monotonic()
        return [*waiting, *self._totals]

    def _read_redis(self) -> list[Metric]:
        depths, memory = self._queues.depths(), self._queues.memory()
        return [
            _gauge("tallystick_wake_ups", "Wake-ups waiting in Redis.", "queue", depths),
            _gauge(
                "tallystick_redis_memory_bytes", "Memory of Redis; 0: no limit.", "kind", memory
            ),
        ]


def _ranked(numbers: Sequence[int]) -> dict[str, int]:
    return {str(rank): number for rank, number in enumerate(numbers, 1)}


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
    mails = dict.fromkeys(Mail.statuses(), 0) | totals.count_mails(connection)
    notices = dict.fromkeys(NoticeDelivery.statuses(), 0) | totals.count_notices(connection)
    events = dict.fromkeys(PROVIDERS, 0) | totals.count_events(connection)
    size, most, oldest, states = read_database_load(connection)
    tenants = read_tenant_load(connection)
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
        _gauge("tallystick_database_connections", "Connections to the database.", "state", states),
        _number(
            "tallystick_database_connections_max", "Connections that PostgreSQL accepts.", most
        ),
        _number("tallystick_database_bytes", "Size of the database.", size),
        _number("tallystick_database_oldest_transaction_seconds", _OLDEST_WORDS, oldest),
        _number("tallystick_tenants_active", "Accounts with records in an hour.", tenants.active),
        _gauge("tallystick_tenant_records", _TENANT_WORDS, "rank", _ranked(tenants.records)),
        _gauge(
            "tallystick_tenant_queued_audits",
            "Queued audits, of the accounts that have most.",
            "rank",
            _ranked(tenants.queued_audits),
        ),
    ]


def _gauge(name: str, words: str, label: str, values: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, words, labels=[label])
    for value, number in values.items():
        gauge.add_metric([value], number)
    return gauge


def _number(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _seconds_since(moment: datetime, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds())
