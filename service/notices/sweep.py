"""The sweeper's work on notices: resend lost wake-ups, and give up after a day."""

from typing import Final

from redis import RedisError
from sqlalchemy import Connection

from service.core.logs import get_logger
from service.core.telemetry.counters import SWEEPER_ACTIONS
from service.jobs.queues import NOTICE, AuditQueues, WakeUp
from service.models.notices.attempts import fail_overdue_deliveries, list_due_deliveries

# The wake-up is sent right after the commit, so a row this young was probably just sent.
_FRESH_SECONDS: Final = 1.0

_log = get_logger(__name__)


def sweep_notices(connection: Connection, queues: AuditQueues) -> None:
    """Run one round: fail overdue deliveries, and wake the worker for those that are due."""
    with connection.begin():
        failed = fail_overdue_deliveries(connection)
        due = list_due_deliveries(connection, _FRESH_SECONDS)
    try:
        sent = _send_lost([WakeUp(row.id, NOTICE, row.attempts + 1) for row in due], queues)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
        sent = 0
    SWEEPER_ACTIONS.labels("notice_failed").inc(len(failed))
    SWEEPER_ACTIONS.labels("notice_woken").inc(sent)
    if failed or sent:
        _log.info("notices_swept", failed=list(failed), enqueued=sent)


def _send_lost(wake_ups: list[WakeUp], queues: AuditQueues) -> int:
    """Push wake-ups that aren't queued. If a worker has already taken one, its claim decides."""
    if not wake_ups:
        return 0
    waiting = queues.waiting_job_ids(NOTICE)
    lost = [wake_up for wake_up in wake_ups if wake_up.job_id not in waiting]
    for wake_up in lost:
        queues.push(wake_up)
    return len(lost)
