"""What the sweeper does for mail: wake-ups that Redis lost, and mails that are not worth it."""

from typing import Final

from redis import RedisError
from sqlalchemy import Connection

from service.core.logs import get_logger
from service.jobs.queues import AuditQueues, MailWakeUp
from service.models.mail.outbox import fail_overdue_mails, list_due_mails

# The view enqueues right after its commit: a row this young has most likely just been sent.
_FRESH_SECONDS: Final = 1.0

_log = get_logger(__name__)


def sweep_mails(connection: Connection, queues: AuditQueues) -> None:
    """One round: end what is overdue, and wake the mail worker for what is due."""
    with connection.begin():
        failed = fail_overdue_mails(connection)
        due = list_due_mails(connection, _FRESH_SECONDS)
    try:
        sent = _send_lost([MailWakeUp(row.id, row.attempts + 1) for row in due], queues)
    except (RedisError, OSError) as error:
        _log.warning("redis_unavailable", error_type=type(error).__name__)
        sent = 0
    if failed or sent:
        _log.info("mails_swept", failed=list(failed), enqueued=sent)


def _send_lost(wake_ups: list[MailWakeUp], queues: AuditQueues) -> int:
    """Push what waits in no queue. One that a worker takes meanwhile is claimed only once."""
    if not wake_ups:
        return 0
    waiting = queues.waiting_mail_ids()
    lost = [one for one in wake_ups if one.job_id not in waiting]
    for wake_up in lost:
        queues.push_mail(wake_up)
    return len(lost)
