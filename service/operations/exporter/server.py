"""`tallystick metrics`: the internal port that Prometheus scrapes, without authentication."""

import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service.config import Config
from service.core.db import make_engine
from service.core.logs import configure_logging, get_logger
from service.core.stop_event import make_stop_event
from service.errors import ConfigError
from service.jobs.queues import AuditQueues
from service.models.base import utc_now
from service.operations.backup.manifests import list_ids, time_of
from service.operations.backup.repository import MANIFESTS, list_all, open_store
from service.operations.exporter.database_metrics import ServerMetrics

_FRESH_SECONDS: Final = 300.0  # a bucket charges for each list

_log = get_logger(__name__)


def run_metrics(config: Config) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logging(config.log_level)
    stopping = make_stop_event()
    try:
        server, thread = start_http_server(
            config.metrics_port, config.metrics_host, make_registry(config)
        )
    except OSError as error:
        raise ConfigError(
            "METRICS_PORT is in use, or METRICS_HOST isn't an address here"
        ) from error
    _log.info("metrics_served", port=config.metrics_port)
    stopping.wait()
    server.shutdown()
    thread.join()
    _log.info("metrics_stopped")


def make_registry(config: Config) -> CollectorRegistry:
    """Return a registry with this machine's counters and the metrics of the servers."""
    registry = CollectorRegistry()
    # One connection is enough: scrapes take turns.
    engine = make_engine(replace(config, database_pool_size=1))
    registry.register(ServerMetrics(config, engine, AuditQueues.from_config(config)))
    if config.backup_url:
        registry.register(BackupMetrics(config.backup_url))
    if config.metrics_folder:
        Path(config.metrics_folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        MultiProcessCollector(registry, config.metrics_folder)  # type: ignore[no-untyped-call]
    return registry


class BackupMetrics(Collector):
    """The age of the newest backup, from the names at BACKUP_URL, which need no key.

    Exports no metric while they can't be read.
    """

    def __init__(self, backup_url: str) -> None:
        self._store = open_store(backup_url, os.environ)
        self._lock = Lock()
        self._newest_at: float | None = None
        self._read_at = -_FRESH_SECONDS

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                self._newest_at, self._read_at = None, time.monotonic()
                try:
                    ids = list_ids(list_all(self._store, MANIFESTS))
                    self._newest_at = time_of(ids[0]).timestamp() if ids else -math.inf
                except OSError as error:
                    _log.warning("backups_unavailable", error_type=type(error).__name__)
        if self._newest_at is not None:
            words = "Time since the newest backup's snapshot; infinite if there is none."
            age = GaugeMetricFamily("tallystick_backup_age_seconds", words)
            age.add_metric([], max(0.0, utc_now().timestamp() - self._newest_at))
            yield age
