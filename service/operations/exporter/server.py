"""`tallystick metrics`: the internal port that Prometheus scrapes, without authentication."""

import signal
from dataclasses import replace
from pathlib import Path
from threading import Event

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

from service.config import Config
from service.core.db import make_engine
from service.core.logs import configure_logging, get_logger
from service.errors import ConfigError
from service.jobs.queues import AuditQueues
from service.operations.exporter.backup_metrics import BackupMetrics
from service.operations.exporter.database_metrics import ServerMetrics

_log = get_logger(__name__)


def run_metrics(config: Config) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logging(config.log_level)
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
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
