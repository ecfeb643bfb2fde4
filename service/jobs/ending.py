"""End an attempt that gave no report: fail its audit, or queue it again."""

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.jobs.transactions import transact
from service.models.audits.capacity import add_failed_seconds
from service.models.audits.leases import Claim, fail_audit, gave_up_message, retry_audit

_log = get_logger(__name__)


def refuse(engine: Engine, claim: Claim, message: str, seconds: float) -> None:
    """Fail an audit whose data is at fault."""

    def end(connection: Connection) -> None:
        if fail_audit(connection, claim, message):
            add_failed_seconds(connection, claim.audit_id, seconds)

    transact(engine, end)


def retry_or_fail(engine: Engine, claim: Claim, max_attempts: int, seconds: float) -> bool:
    """Queue another attempt, or fail the audit after the last one.

    Return False if the claim no longer holds the audit, which may even be published.
    """

    def end(connection: Connection) -> bool:
        if claim.counted_attempt < max_attempts:
            has_ended = retry_audit(connection, claim)
        else:
            has_ended = fail_audit(connection, claim, gave_up_message(max_attempts))
        if has_ended:
            add_failed_seconds(connection, claim.audit_id, seconds)
        return has_ended

    try:
        return transact(engine, end)
    except SQLAlchemyError as error:
        # The audit is retried when its lease expires.
        _log.warning("audit_not_retried", error_type=type(error).__name__)
        return False
