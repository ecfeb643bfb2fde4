"""The sweeper: re-queue audits, mails and notices whose wake-up or worker was lost; clean up."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from threading import Event, Thread
from typing import Final

from redis import RedisError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from detectors.errors import PriceUpdateError
from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_engine
from service.core.logs import get_logger
from service.core.stop_event import make_stop_event
from service.core.telemetry.counters import PRICE_UPDATES, SWEEPER_ACTIONS, timed_task
from service.core.telemetry.processes import begin_process
from service.jobs.outages import find_outage
from service.jobs.queues import QUEUE_NAMES, AuditQueues, WakeUp
from service.jobs.sending import sweep_unsent
from service.models.audits.audits import ACCOUNT, INGEST
from service.models.audits.capacity import add_failed_seconds
from service.models.audits.leases import (
    extend_leases,
    fail_exhausted,
    list_queued,
    mark_enqueued,
    requeue_expired,
)
from service.models.base import utc_now
from service.models.calls.account_audits import (
    DEFAULT_WINDOW,
    list_due_accounts,
    queue_account_audit,
)
from service.models.calls.call_files import list_due
from service.models.calls.missing_imports import list_incomplete_accounts
from service.models.calls.stored_prices import list_outdated_accounts
from service.models.connections.connections import list_due_connections
from service.models.connections.unsent import wake_outdated
from service.models.mail.outbox import Mail
from service.models.notices.deliveries import NoticeDelivery
from service.operations.connections.failing import post_failing_mails
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from service.operations.maintenance.span_imports import SpanImports
from service.operations.price_book import fetch_update, find_fetched_at, find_version, save_update

# Accounts whose call store has something to do: the expensive searches run rarely.
_AT_ONCE: Final = 100
_OFTEN_SECONDS: Final = 60.0
_RARELY_SECONDS: Final = 3_600.0
# The published prices.
_DAY_SECONDS: Final = 86_400.0
_RETRY_SECONDS: Final = 3_600.0
# An arbitrary number: every sweeper of this database takes the same lock.
SWEEPER_LOCK: Final = 7_255_019_430_872
# The view enqueues right after its commit, so a row this young was probably just sent.
_FRESH_SECONDS: Final = 1.0
_ACCOUNTS_AT_ONCE: Final = 100

_log = get_logger(__name__)


class Sweeper:
    """One of possibly several sweepers; the one that holds the database lock does the work.

    The lock belongs to the connection that does the work, so losing one loses both.
    """

    def __init__(
        self, config: Config, engine: Engine, queues: AuditQueues, blobs: BlobStore
    ) -> None:
        self._config = config
        self._engine = engine
        self._queues = queues
        self._blobs = blobs
        self._orphan_blobs = OrphanBlobs(blobs)
        self._housekeeping = Housekeeping(config, blobs)
        self._price_updates = PriceUpdates(config, engine)
        self._span_imports = SpanImports(blobs)
        self._due_accounts = DueAccounts()
        self._taken_before: set[str] = set()
        self._was_away = False
        self._tasks: Mapping[str, Callable[[Connection], None]] = {
            "audits": self._sweep_audits,
            "mails": partial(sweep_unsent, table=Mail, queues=queues),
            "notices": partial(sweep_unsent, table=NoticeDelivery, queues=queues),
            "imports": self._close_imports,
            "calls": self._tend_calls,
            "connections": self._pull_reports,
            "orphan_blobs": self._orphan_blobs.clear_page,
            "housekeeping": self._housekeeping.take_turn,
            "prices": self._price_updates.take_turn,
        }

    def run(self, stopping: Event) -> None:
        """Sweep until `stopping` is set, through restarts of both servers."""
        while not stopping.is_set():
            try:
                with self._engine.connect() as connection:
                    self._sweep_while_leading(connection, stopping)
            except SQLAlchemyError as error:
                _log.warning("database_unavailable", error_type=type(error).__name__)
                # Away, rather than a statement of ours wrong or slow: a task that fails in every
                # round must not keep dead workers' leases alive.
                outage = find_outage(error)
                was_lost = isinstance(error, DBAPIError) and error.connection_invalidated
                self._was_away |= outage is not None and (outage.is_certain or was_lost)
                stopping.wait(min(1.0, self._config.sweep_seconds))

    def sweep(self, connection: Connection) -> None:
        """Run one round: end or retry expired audits, resend lost wake-ups, clean up."""
        for task, work in self._tasks.items():
            with timed_task(task):
                work(connection)

    def _sweep_audits(self, connection: Connection) -> None:
        max_attempts = self._config.max_starts
        with connection.begin():
            if self._was_away:  # nobody could renew a lease
                extend_leases(connection, self._config.lease_seconds)
            failed = fail_exhausted(connection, max_attempts)
            expired = requeue_expired(connection)
            for audit_id, seconds in expired:
                add_failed_seconds(connection, audit_id, seconds)
        self._was_away = False
        try:
            sent = self._send_lost(connection)
        except (RedisError, OSError) as error:
            _log.warning("redis_unavailable", error_type=type(error).__name__)
            sent = 0
        SWEEPER_ACTIONS.labels("audit_failed").inc(len(failed))
        SWEEPER_ACTIONS.labels("lease_expired").inc(len(expired))
        SWEEPER_ACTIONS.labels("audit_woken").inc(sent)
        if failed or expired or sent:
            _log.info(
                "swept", failed=list(failed), expired=[row[0] for row in expired], enqueued=sent
            )

    def _close_imports(self, connection: Connection) -> None:
        """Cut imports from the spans that accounts have sent."""
        for audit_id in self._span_imports.close(connection):
            SWEEPER_ACTIONS.labels("import_closed").inc()
            self._queues.enqueue_audit(audit_id, INGEST)

    def _tend_calls(self, connection: Connection) -> None:
        """Have workers merge and reprice files of calls, and audit accounts with new calls."""
        with connection.begin():
            account_ids = self._due_accounts.find(connection)
            accounts = list_due_accounts(connection, _ACCOUNTS_AT_ONCE)
            audit_ids = [
                queue_account_audit(connection, account_id, DEFAULT_WINDOW)
                for account_id in accounts
            ]
        for account_id in account_ids:
            self._queues.enqueue_compaction(account_id)
        for audit_id in filter(None, audit_ids):
            self._queues.enqueue_audit(audit_id, ACCOUNT)

    def _pull_reports(self, connection: Connection) -> None:
        """Have a worker pull the reports of connections, and say which have failed for a day.

        Where connections are off, what was pulled is still compared with new calls.
        """
        with connection.begin():
            wake_outdated(connection, find_version(connection))
            due = list_due_connections(connection, _ACCOUNTS_AT_ONCE)
            is_on = self._config.connections == "on"
            mail_ids = post_failing_mails(connection) if is_on else ()
        for connection_id in due:
            self._queues.enqueue_pull(connection_id)
        for mail_id in mail_ids:
            self._queues.enqueue_mail(mail_id)

    def _sweep_while_leading(self, connection: Connection, stopping: Event) -> None:
        while not stopping.is_set():
            with connection.begin():
                # Without keepalives, a leader whose machine vanished would hold the lock for hours.
                connection.execute(text("SET tcp_keepalives_idle = 10"))
                connection.execute(text("SET tcp_keepalives_interval = 5"))
                connection.execute(text("SET tcp_keepalives_count = 3"))
                query = text("SELECT pg_try_advisory_lock(:lock)")
                is_leading = bool(connection.scalar(query, {"lock": SWEEPER_LOCK}))
            if is_leading:
                break
            stopping.wait(self._config.sweep_seconds)
        if not stopping.is_set():
            _log.info("sweeper_leads")
        while not stopping.is_set():
            self.sweep(connection)
            stopping.wait(self._config.sweep_seconds)

    def _send_lost(self, connection: Connection) -> int:
        waiting = self._queues.waiting_job_ids(*QUEUE_NAMES)
        sent, taken = 0, set[str]()
        after: tuple[datetime, str] | None = None
        while True:
            with connection.begin():
                page = list_queued(connection, older_than_seconds=_FRESH_SECONDS, after=after)
            if not page:
                break
            after = (page[-1].created_at, page[-1].id)
            wake_ups = [WakeUp(row.id, row.source, row.attempts + 1) for row in page]
            existing = self._queues.existing_job_ids([wake_up.job_id for wake_up in wake_ups])
            # A job that exists but isn't waiting was taken by a worker. If it is still so in the
            # next round, that worker died before it claimed the row.
            taken |= existing - waiting
            live = (existing & waiting) | (taken - self._taken_before)
            lost = [wake_up for wake_up in wake_ups if wake_up.job_id not in live]
            for wake_up in lost:
                self._queues.push(wake_up)
            with connection.begin():
                mark_enqueued(connection, [wake_up.row_id for wake_up in lost])
            sent += len(lost)
        self._taken_before = taken
        return sent


def run_sweeper(config: Config) -> None:
    """Sweep every `sweep_seconds` until SIGTERM or SIGINT."""
    begin_process(config)
    stopping = make_stop_event()
    blobs = BlobStore.from_url(config.storage_url)
    _log.info("sweeper_started")
    Sweeper(config, make_engine(config), AuditQueues.from_config(config), blobs).run(stopping)
    _log.info("sweeper_stopped")


class PriceUpdates:
    """Fetch the published prices daily, in a thread, so that a slow network delays no audit."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._due_at = time.monotonic()
        self._thread = Thread()

    def take_turn(self, connection: Connection) -> None:
        """Begin to fetch if the stored prices are a day old, or an hour after a failure."""
        is_due = self._config.prices_update == "on" and time.monotonic() >= self._due_at
        if not is_due or self._thread.is_alive():
            return
        with connection.begin():
            fetched_at = find_fetched_at(connection)
        if fetched_at is not None:
            left = _DAY_SECONDS - (utc_now() - fetched_at).total_seconds()
            if left > 0:
                self._due_at = time.monotonic() + left
                return
        self._due_at = time.monotonic() + _RETRY_SECONDS
        self._thread = Thread(target=self._update, name="prices", daemon=True)
        self._thread.start()

    def _update(self) -> None:
        try:
            content = fetch_update(self._config.prices_url)
            with self._engine.begin() as connection:
                save_update(connection, content)
        except (PriceUpdateError, SQLAlchemyError) as error:
            # The text may contain the URL, and with it a password.
            cause = type(error.__cause__ or error).__name__
            PRICE_UPDATES.labels("failed").inc()
            _log.warning("prices_not_updated", error_type=cause)
        else:
            PRICE_UPDATES.labels("fetched").inc()
            _log.info("prices_updated", size=len(content))


class DueAccounts:
    """The accounts whose call store has something to do."""

    def __init__(self) -> None:
        self._outdated_at = self._incomplete_at = time.monotonic()

    def find(self, connection: Connection) -> Sequence[str]:
        """Return accounts with files to merge or to reprice, or with imports to add."""
        now, found = time.monotonic(), list(list_due(connection, utc_now().date(), _AT_ONCE))
        if now >= self._outdated_at:
            found += list_outdated_accounts(connection, find_version(connection), _AT_ONCE)
            self._outdated_at = now + _OFTEN_SECONDS
        if now >= self._incomplete_at:
            incomplete = list_incomplete_accounts(connection, _AT_ONCE)
            self._incomplete_at = now + (_OFTEN_SECONDS if incomplete else _RARELY_SECONDS)
            found += incomplete
        return list(dict.fromkeys(found))
