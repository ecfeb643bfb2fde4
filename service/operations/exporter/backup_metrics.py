"""The age of the newest backup, read from the names at BACKUP_URL, which need no key."""

import math
import os
import time
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from service.core.logs import get_logger
from service.models.base import utc_now
from service.operations.backup.manifests import list_ids, time_of
from service.operations.backup.repository import MANIFESTS, list_all, open_store

_FRESH_SECONDS: Final = 300.0  # a bucket charges for each list
_log = get_logger(__name__)


class BackupMetrics(Collector):
    """Export no metric while BACKUP_URL can't be read."""

    def __init__(self, backup_url: str) -> None:
        self._store = open_store(backup_url, os.environ)
        self._lock = Lock()
        self._newest_at: float | None = None
        self._read_at = -_FRESH_SECONDS

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering doesn't read the backups."""
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                self._newest_at = self._find_newest()
                self._read_at = time.monotonic()
        if self._newest_at is not None:
            words = "Time since the newest backup's snapshot; infinite if there is none."
            age = GaugeMetricFamily("tallystick_backup_age_seconds", words)
            age.add_metric([], max(0.0, utc_now().timestamp() - self._newest_at))
            yield age

    def _find_newest(self) -> float | None:
        try:
            ids = list_ids(list_all(self._store, MANIFESTS))
        except OSError as error:
            _log.warning("backups_unavailable", error_type=type(error).__name__)
            return None
        return time_of(ids[0]).timestamp() if ids else -math.inf
