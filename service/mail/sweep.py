"""The sweeper's work on mails: resend lost wake-ups, and fail overdue mails."""

from typing import Final

from redis import RedisError
from sqlalchemy import Connection

from service.core.logs import get_logger
from service.core.telemetry.counters import SWEEPER_ACTIONS
from service.jobs.queues import MAIL, AuditQueues, WakeUp
from service.models.mail.outbox import fail_overdue_mails, list_due_mails

# The view enqueues right after its commit, so a row this young was probably just sent.
_FRESH_SECONDS: Final = 1.0

_log = get_logger(__name__)


def sweep_mails(connection: Connection, queues: AuditQueues) -> None:
    """Run one round: fail overdue mails, and wake the mail worker for mails that are due."""
    with connection.begin():
        failed = fail_overdue_mails(connection)
        due = list_due_mails(connection, _FRESH_SECONDS)
    try:
        sent = _send_lost([WakeUp(row.id, MAIL, row.attempts + 1) for row in due], queues)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
        sent = 0
    SWEEPER_ACTIONS.labels("mail_failed").inc(len(failed))
    SWEEPER_ACTIONS.labels("mail_woken").inc(sent)
    if failed or sent:
        _log.info("mails_swept", failed=list(failed), enqueued=sent)


def _send_lost(wake_ups: list[WakeUp], queues: AuditQueues) -> int:
    """Push wake-ups that aren't queued. If a worker has already taken one, its claim decides."""
    if not wake_ups:
        return 0
    waiting = queues.waiting_job_ids(MAIL)
    lost = [wake_up for wake_up in wake_ups if wake_up.job_id not in waiting]
    for wake_up in lost:
        queues.push(wake_up)
    return len(lost)
