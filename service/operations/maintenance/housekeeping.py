"""Delete expired data, send digests and watch spend, in rounds, for the leading sweeper.

A round takes several turns of a few batches each, so that the sweeper gets back to audits quickly.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection

from service.config import Config
from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.core.telemetry.counters import HOUSEKEEPING
from service.models.audits.capacity import delete_old_days
from service.models.audits.idempotency import hash_old_keys
from service.models.base import utc_now
from service.models.connections.agent_totals import delete_old_points, delete_old_totals
from service.models.connections.reported import delete_old_pulls
from service.models.connections.unsent import delete_old_unsent
from service.models.mail.outbox import Mail
from service.models.mail.report_mails import post_digests
from service.models.notices.deliveries import NoticeDelivery
from service.models.operations.retention import (
    BATCH,
    PACKED_AFTER,
    delete_account_audits,
    delete_batch_reports,
    delete_ended_codes,
    delete_ended_sessions,
    delete_expired_links,
    delete_expired_secrets,
    delete_finding_history,
    delete_old_events,
    delete_old_spend,
    delete_replaced,
    delete_sent,
    pack_reports,
    purge_old,
    purge_old_raws,
)
from service.models.operations.retention import BATCH as PACKED
from service.models.operations.stored_data import BATCH as MEASURED
from service.models.operations.stored_data import measure_accounts
from service.operations.maintenance.orphan_blobs import storage_failure_logged
from service.operations.price_terms import BATCH as REWRITTEN
from service.operations.price_terms import rewrite_typed_terms
from service.operations.watching.daily_watch import BATCH as WATCHED
from service.operations.watching.daily_watch import check_budgets, watch_days
from service.operations.watching.weekly_digest import BATCH as DIGESTED
from service.operations.watching.weekly_digest import post_weekly_digests

_ROUND_SECONDS: Final = 3_600.0
_TURN_SECONDS: Final = 0.5
_UNFINISHED_BLOB_SECONDS: Final = 3_600.0

_PULLS_KEPT_DAYS: Final = 120
# Sizes of batches that take longer than others.
_BATCHES: Final = {
    "weekly_digests": DIGESTED,
    "watched_accounts": WATCHED,
    "checked_budgets": WATCHED,
    "packed_reports": PACKED,
    "measured_accounts": MEASURED,
    "price_terms": REWRITTEN,
}

_log = get_logger(__name__)

# Processes one batch and returns its size; a smaller batch is the last.
Chore = Callable[[Connection], int]


class Housekeeping:
    """Run one round of all chores every hour, the first immediately."""

    def __init__(self, config: Config, blobs: BlobStore) -> None:
        self._config = config
        self._blobs = blobs
        self._due_at = self._began_at = time.monotonic()
        self._left: deque[tuple[str, Chore]] = deque()
        self._cleared: dict[str, int] = {}

    def take_turn(self, connection: Connection) -> None:
        """Continue the round, or begin one if it is due."""
        if not self._left and time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + _ROUND_SECONDS
            self._left.extend(self._chores().items())
            self._cleared = {}
        ends_at = time.monotonic() + _TURN_SECONDS
        while self._left and time.monotonic() < ends_at:
            name, chore = self._left[0]
            count = 0
            with storage_failure_logged():
                count = chore(connection)
            self._cleared[name] = self._cleared.get(name, 0) + count
            HOUSEKEEPING.labels(name).inc(count)
            if count < _BATCHES.get(name, BATCH):
                self._left.popleft()
            if not self._left:
                _log.info("housekeeping_done", **self._cleared)

    def _chores(self) -> dict[str, Chore]:
        config = self._config
        days, links = config.report_retention_days, config.report_link_days
        call_days, rollup_days = config.call_retention_days, config.rollup_retention_days
        committed: dict[str, Chore] = {
            "magic_links": delete_expired_links,
            "oauth_codes": delete_ended_codes,
            "expired_secrets": delete_expired_secrets,
            "sessions": lambda found: delete_ended_sessions(found, config.session_idle_days),
            "mails": lambda found: delete_sent(found, Mail, config.mail_retention_days),
            "notice_deliveries": lambda found: delete_sent(
                found, NoticeDelivery, config.mail_retention_days
            ),
            "connection_pulls": lambda found: delete_old_pulls(found, _PULLS_KEPT_DAYS, BATCH),
            "agent_points": lambda found: delete_old_points(found, BATCH),
            "failed_work": delete_old_days,
            "idempotency_keys": lambda found: hash_old_keys(found, BATCH),
            # What was derived from calls.
            "batch_reports": lambda found: delete_batch_reports(found, days, links),
            "account_audits": lambda found: delete_account_audits(found, days, call_days, links),
            "finding_history": lambda found: delete_finding_history(found, days, call_days),
            "old_calls": lambda found: purge_old(found, call_days, BATCH),
            "old_spend": lambda found: delete_old_spend(found, rollup_days, BATCH),
            "old_reported_spend": lambda found: delete_old_unsent(found, rollup_days, BATCH),
            "old_agent_totals": lambda found: delete_old_totals(found, rollup_days, BATCH),
            "security_events": lambda found: delete_old_events(
                found, config.activity_retention_days
            ),
            "replaced_call_files": lambda found: delete_replaced(found, BATCH),
            "measured_accounts": measure_accounts,
            "price_terms": rewrite_typed_terms,
            "report_digests": lambda found: post_digests(
                found, utc_now().replace(hour=0, minute=0, second=0, microsecond=0), BATCH
            ),
        }
        if not rollup_days:
            del committed["old_spend"], committed["old_reported_spend"]
            del committed["old_agent_totals"]
        return {
            # First, because it frees a full disk, on which the others' writes fail. They are all
            # deleted at once; reporting a full batch would cause another call.
            "unfinished_blobs": lambda _: min(
                self._blobs.delete_unfinished(_UNFINISHED_BLOB_SECONDS), BATCH - 1
            ),
            "raw_uploads": self._purge_raws,
            **{name: _committed(chore) for name, chore in committed.items()},
            "packed_reports": self._pack_reports,
            "weekly_digests": lambda found: post_weekly_digests(found, utc_now()),
            "watched_accounts": lambda found: watch_days(found, utc_now()),
            "checked_budgets": lambda found: check_budgets(found, utc_now()),
        }

    def _purge_raws(self, connection: Connection) -> int:
        config = self._config
        with connection.begin():
            keys = purge_old_raws(
                connection, config.raw_retention_days, config.failed_raw_retention_days
            )
        # From the first that can't be deleted now, they will be removed as orphans.
        with storage_failure_logged():
            for key in keys:
                self._blobs.delete(key)
        return len(keys)

    def _pack_reports(self, connection: Connection) -> int:
        # An hour after this release was started, its predecessor no longer reads reports.
        if time.monotonic() - self._began_at < PACKED_AFTER.total_seconds():
            return 0
        with connection.begin():
            return pack_reports(connection)


def _committed(delete: Chore) -> Chore:
    def commit(connection: Connection) -> int:
        with connection.begin():
            return delete(connection)

    return commit
